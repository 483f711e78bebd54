package gateway

import (
	"crypto/sha256"
	"crypto/tls"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Hosts, o.Origins = []string{"Gate.example.com"}, []string{"https://app.example.com"}
	})
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": {Actor: "token:a"}})
	for _, c := range []struct {
		name    string
		method  string
		path    string
		headers []string
		status  int
	}{
		{"as it is", "GET", "/api/v1/whoami", nil, 200},
		{"localhost", "GET", "/api/v1/whoami", []string{"Host: LOCALHOST:4280"}, 200},
		{"an address", "GET", "/api/v1/whoami", []string{"Host: [::1]:4280"}, 200},
		{"its own name", "GET", "/api/v1/whoami", []string{"Host: gate.EXAMPLE.com."}, 200},
		{"a name of others", "GET", "/api/v1/whoami", []string{"Host: evil.example"}, 421},
		{"a name below its own", "GET", "/api/v1/whoami", []string{"Host: a.gate.example.com"}, 421},
		{"a name of others, for the document", "GET", "/api/v1/openapi.json", []string{"Host: evil.example"}, 421},
		{"its own page", "GET", "/api/v1/whoami", []string{"Host: localhost:80", "Origin: http://localhost:80"}, 200},
		{"a page of another port", "GET", "/api/v1/whoami", []string{"Host: localhost:80", "Origin: http://localhost:81"}, 403},
		{"a page of others", "GET", "/api/v1/whoami", []string{"Origin: https://evil.example"}, 403},
		{"no origin", "GET", "/api/v1/whoami", []string{"Origin: null"}, 403},
		{"a page that may", "GET", "/api/v1/whoami", []string{"Origin: https://app.example.com"}, 200},
		{"a page that almost may", "GET", "/api/v1/whoami", []string{"Origin: http://app.example.com"}, 403},
		{"a write across sites", "POST", "/api/v1/sessions/a/ensure", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"a write of the same site", "POST", "/api/v1/sessions/a/ensure", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"no token", "GET", "/api/v1/whoami", []string{"Authorization: "}, 401},
		{"another scheme", "GET", "/api/v1/whoami", []string{"Authorization: Basic ZHB0X2E6"}, 401},
		{"a token in the path", "GET", "/api/v1/sessions?token=dpt_a", []string{"Authorization: "}, 401},
		{"a cookie", "GET", "/api/v1/whoami", []string{"Authorization: ", "Cookie: token=dpt_a"}, 401},
		{"a token that there isn't", "GET", "/api/v1/whoami", []string{"Authorization: Bearer dpt_b"}, 401},
		{"nothing there", "GET", "/api/v2/whoami", nil, 404},
		{"nothing there, without a token", "GET", "/nothing", []string{"Authorization: "}, 401},
		{"another method", "PUT", "/api/v1/whoami", nil, 405},
		{"a query that there isn't", "GET", "/api/v1/sessions?tennant=acme", nil, 400},
		{"the document", "GET", "/api/v1/openapi.json", []string{"Authorization: "}, 200},
		{"the document", "GET", "/api/v1/openapi.yaml", []string{"Authorization: "}, 200},
		{"the page", "GET", "/api/v1/docs", []string{"Authorization: "}, 200},
	} {
		r := b.do(c.method, c.path, "", c.headers...)
		if c.status >= 400 {
			b.refused(c.name, r, c.status)
		} else if r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.status)
		}
		h := r.Header
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the headers are %v", c.name, h)
		}
		if allow := h.Get("Access-Control-Allow-Origin"); allow != "" && c.name != "a page that may" {
			t.Errorf("%s: pages of %s may read the answer", c.name, allow)
		}
		if c.status == 401 && h.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: nothing says how to authenticate", c.name)
		}
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.Origins = []string{"https://app.example.com"} })
	ask := []string{"Authorization: ", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: if-match"}
	r := b.do("OPTIONS", "/api/v1/policies/all", "", append(ask, "Origin: https://app.example.com")...)
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "If-Match") || !strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), "PATCH") || r.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("a page that may: %d, %v", r.StatusCode, r.Header)
	}
	b.refused("a page that may not", b.do("OPTIONS", "/api/v1/policies/all", "", append(ask, "Origin: https://evil.example")...), http.StatusForbidden)
}

func TestAllowedNames(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{{"*.example.com", ""}, {"a/b", ""}, {"a:80", ""}, {"", "*"}, {"", "null"}, {"", "app.example.com"}, {"", "https://app.example.com/"}, {"", "file://x"}} {
		var hosts, origins []string
		if bad[0] != "" {
			hosts = []string{bad[0]}
		}
		if bad[1] != "" {
			origins = []string{bad[1]}
		}
		if _, err := allow(Outside{}, hosts, origins); err == nil {
			t.Errorf("host %q, origin %q are taken", bad[0], bad[1])
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.answers("suspend", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, State: schemas.Suspended}, nil
	})
	const path = "/api/v1/sessions/acme.web/suspend"
	if r := b.do("POST", path, ""); r.StatusCode != http.StatusOK {
		t.Errorf("no body: status %d", r.StatusCode)
	}
	if r := b.do("POST", path, `{"reason":"`+strings.Repeat("a", maxBody-100)+`"}`); r.StatusCode != http.StatusOK {
		t.Errorf("a body that is just small enough: status %d, %+v", r.StatusCode, read[Problem](b, r))
	}
	b.refused("a large body", b.do("POST", path, `{"reason":"`+strings.Repeat("a", maxBody)+`"}`), http.StatusRequestEntityTooLarge)
	b.refused("a form", b.do("POST", path, `reason=a`, "Content-Type: application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType)
	b.refused("text that a page can send", b.do("POST", path, `{}`, "Content-Type: text/plain"), http.StatusUnsupportedMediaType)
	for _, wrong := range []string{`{`, `[]`, `{"reason":1}`, `{"raeson":"a"}`, `{} {}`, `"a"`} {
		b.refused(wrong, b.do("POST", path, wrong), http.StatusBadRequest)
	}
}

// refuses asks until a request is refused.
func (r *rates) refuses(f from) bool {
	for range 1_000_000 { // some are due by now
		if r.allow(&f) != goOn {
			return true
		}
	}
	return false
}

func TestRates(t *testing.T) {
	t.Parallel()
	r := newRates()
	a, b := from{token: "a", address: "10.0.0.1"}, from{token: "b", address: "10.0.0.1"}
	r.answered(a, true)
	for i := range atOnce {
		if r.allow(&a) != goOn {
			t.Fatalf("request %d is refused", i)
		}
	}
	if !r.refuses(a) {
		t.Error("none is refused")
	}
	if r.allow(&b) != goOn {
		t.Error("another token of the same address is refused")
	}
	for i := range 2 * maxRates {
		r.allow(&from{address: strconv.Itoa(i)})
		r.answered(from{token: strconv.Itoa(i), address: strconv.Itoa(i)}, i%2 == 0)
	}
	if len(r.asked) > maxRates || len(r.wrong) > maxRates || len(r.found) > maxRates || len(r.none) > maxRates {
		t.Errorf("%d, %d, %d, %d are remembered", len(r.asked), len(r.wrong), len(r.found), len(r.none))
	}
}

// Who tries tokens is refused before the API is asked; who has one isn't, behind the same address.
func TestTokensCantBeTried(t *testing.T) {
	t.Parallel()
	r := newRates()
	good := from{token: "good", address: "10.0.0.1"}
	r.answered(good, true)
	refused := false
	for i := 0; i < 1_000_000 && !refused; i++ {
		f := from{token: strconv.Itoa(i), address: "10.0.0.1"}
		if refused = r.allow(&f) != goOn; !refused {
			r.answered(f, false)
		}
		if i < wrongAtOnce && refused {
			t.Fatalf("try %d is refused", i)
		}
	}
	if !refused {
		t.Error("none is refused")
	}
	if r.allow(&good) != goOn {
		t.Error("the token that there is is refused")
	}
	if r.allow(&from{token: "new", address: "10.0.0.2"}) != goOn {
		t.Error("another address is refused")
	}
	r.answered(good, false) // it was revoked
	if _, found := r.found[sha256.Sum256([]byte("good"))]; found {
		t.Error("a token that was revoked counts as found")
	}
}

// Many wrong tokens at once are no more than one after another.
func TestTokensCantBeTriedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRates()
	var asked []from
	for i := range 10 * wrongAtOnce {
		f := from{token: strconv.Itoa(i), address: "2001:db8::" + strconv.FormatInt(int64(i), 16)} // of one client
		if r.allow(&f) == goOn {
			asked = append(asked, f)
		}
	}
	if len(asked) != wrongAtOnce {
		t.Errorf("%d are asked for, want %d", len(asked), wrongAtOnce)
	}
	for i, f := range asked {
		if i%2 == 0 {
			r.drop(f)
		} else {
			r.answered(f, true)
			r.drop(f) // as at the end of each request
		}
	}
	if len(r.open) != 0 {
		t.Errorf("open are %v", r.open)
	}
	if f := (from{token: "new", address: "2001:db8::1"}); r.allow(&f) != goOn {
		t.Error("tries that were none count")
	}
}

// Who goes on with one token that has ended takes no tries from others behind the address.
func TestOneWrongTokenIsOneTry(t *testing.T) {
	t.Parallel()
	r := newRates()
	f := from{token: "ended", address: "10.0.0.1"}
	if r.allow(&f) != goOn {
		t.Fatal("the first is refused")
	}
	r.answered(f, false)
	for range 2 * wrongAtOnce {
		if again := (from{token: "ended", address: "10.0.0.1"}); r.allow(&again) != unknown {
			t.Fatal("it is asked for again")
		}
	}
	if other := (from{token: "good", address: "10.0.0.1"}); r.allow(&other) != goOn {
		t.Error("another token is refused")
	}
}

// A share that ends takes no tries from those behind the address of those who watched, however many they were.
func TestEndedTokenIsNoGuess(t *testing.T) {
	t.Parallel()
	for what, knew := range map[string]func(*rates, from){
		"a share":       (*rates).watches,
		"another token": func(r *rates, f from) { r.answered(f, true) },
	} {
		r := newRates()
		f := from{token: "ends", address: "10.0.0.1"}
		knew(r, f)
		for range 2 * wrongAtOnce { // all who watched are told
			r.answered(f, false)
		}
		token := sha256.Sum256([]byte("ends"))
		for range 2 * wrongAtOnce { // and come again later
			r.none[token] = refused{time.Now().Add(-2 * wrongFor), r.none[token].ended}
			if again := f; r.allow(&again) != goOn {
				t.Fatalf("%s: whether it has ended isn't asked again", what)
			}
			r.answered(f, false)
		}
		for i := range wrongAtOnce {
			other := from{token: strconv.Itoa(i), address: "10.0.0.1"}
			if r.allow(&other) != goOn {
				t.Fatalf("%s has ended: try %d of another token is refused", what, i)
			}
		}
		if len(r.watch) != 0 || len(r.found) != 0 {
			t.Errorf("%s counts as good", what)
		}
	}
}

// Many requests at once with the same wrong token are one try.
func TestOneWrongTokenAtOnceIsOneTry(t *testing.T) {
	t.Parallel()
	r := newRates()
	var asked []from
	for range wrongAtOnce {
		f := from{token: "wrong", address: "10.0.0.1"}
		if r.allow(&f) != goOn {
			t.Fatal("one is refused")
		}
		asked = append(asked, f)
	}
	for _, f := range asked {
		r.answered(f, false)
	}
	for i := range wrongAtOnce - 1 {
		if other := (from{token: strconv.Itoa(i), address: "10.0.0.1"}); r.allow(&other) != goOn {
			t.Fatalf("try %d of another token is refused", i)
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"10.0.0.7": "10.0.0.7", "::ffff:10.0.0.7": "10.0.0.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "": "", "@": "@",
	} {
		if got := network(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestWhereToListen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o  ListenOptions
		ok bool
	}{
		{ListenOptions{Address: "127.0.0.1:0"}, true},
		{ListenOptions{Address: "localhost:0"}, true},
		{ListenOptions{Address: "[::1]:0"}, true},
		{ListenOptions{Address: "127.0.0.1"}, false},
		{ListenOptions{Address: ":0"}, false},
		{ListenOptions{Address: "0.0.0.0:0"}, false},
		{ListenOptions{Address: "10.0.0.7:0"}, false},
		{ListenOptions{Address: "gate.example.com:0"}, false},
		{ListenOptions{Address: "localhost.example.com:0"}, false},
		{ListenOptions{Address: "0.0.0.0:0", TLS: &tls.Config{}}, true},
		{ListenOptions{Address: "0.0.0.0:0", Plain: true}, false},
		{ListenOptions{Address: "0.0.0.0:0", PlainAt: "0.0.0.0:0"}, false},
		{ListenOptions{Address: "0.0.0.0:0", Plain: true, PlainAt: "yes"}, false},
		{ListenOptions{Address: "0.0.0.0:0", Plain: true, PlainAt: "0.0.0.0:1"}, false},
		{ListenOptions{Address: "0.0.0.0:0", Plain: true, PlainAt: "0.0.0.0:0"}, true},
	} {
		if err := c.o.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}
