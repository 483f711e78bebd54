package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// seenBy gives a request as it comes through to the gateway.
func seenBy(t *testing.T, o Outside, r *http.Request) (got *http.Request) {
	t.Helper()
	a, err := allow(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.through("apps.example.com", a, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })).ServeHTTP(httptest.NewRecorder(), r)
	return got
}

func TestClientsBehindProxies(t *testing.T) {
	t.Parallel()
	o, err := ParseOutside("", []string{"10.0.0.0/8", "2001:db8:1::/48", "192.0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	const proxy = "10.0.0.1:5000"
	for _, c := range []struct {
		name, peer string
		headers    []string
		address    string // of the client; the peer's if empty
		secure     bool
	}{
		{"no header", proxy, nil, "", false},
		{"a client", proxy, []string{"X-Forwarded-For: 198.51.100.7"}, "198.51.100.7", false},
		{"by TLS", proxy, []string{"X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: https"}, "198.51.100.7", true},
		{"by TLS, and nothing else", proxy, []string{"X-Forwarded-Proto: HTTPS"}, "", true},
		{"without TLS", proxy, []string{"X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: http"}, "198.51.100.7", false},
		{"forged by the client", proxy, []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.7"}, "198.51.100.7", false},
		{"forged, in a line of its own", proxy, []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 198.51.100.7"}, "198.51.100.7", false},
		{"forged as a proxy", proxy, []string{"X-Forwarded-For: 10.0.0.5, 198.51.100.7"}, "198.51.100.7", false},
		{"two proxies", proxy, []string{"X-Forwarded-For: 198.51.100.7, 10.9.9.9"}, "198.51.100.7", false},
		{"two proxies, forged", proxy, []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.7, 192.0.2.9, 10.9.9.9"}, "198.51.100.7", false},
		{"two proxies, the scheme of each", proxy, []string{"X-Forwarded-For: 198.51.100.7, 10.9.9.9", "X-Forwarded-Proto: https, http"}, "198.51.100.7", true},
		{"the scheme forged", proxy, []string{"X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: https, http"}, "198.51.100.7", false},
		{"a client that is inside", proxy, []string{"X-Forwarded-For: 10.1.1.1, 10.9.9.9"}, "10.1.1.1", false},
		{"IPv6", proxy, []string{"X-Forwarded-For: 2001:db8::7"}, "2001:db8::7", false},
		{"IPv6 with a port", proxy, []string{"X-Forwarded-For: [2001:db8::7]:443"}, "2001:db8::7", false},
		{"IPv6 in brackets", proxy, []string{"X-Forwarded-For: [2001:db8::7]"}, "2001:db8::7", false},
		{"IPv4 with a port", proxy, []string{"X-Forwarded-For: 198.51.100.7:1234"}, "198.51.100.7", false},
		{"a proxy with IPv6", "[2001:db8:1::1]:5000", []string{"X-Forwarded-For: 198.51.100.7"}, "198.51.100.7", false},
		{"IPv4 as IPv6", "[::ffff:10.0.0.1]:5000", []string{"X-Forwarded-For: ::ffff:198.51.100.7"}, "198.51.100.7", false},
		{"garbage", proxy, []string{"X-Forwarded-For: nonsense"}, "", false},
		{"garbage before the client", proxy, []string{"X-Forwarded-For: <script>, 198.51.100.7"}, "198.51.100.7", false},
		{"garbage after the client", proxy, []string{"X-Forwarded-For: 198.51.100.7, unknown"}, "", false},
		{"garbage behind a second proxy", proxy, []string{"X-Forwarded-For: 198.51.100.7, , 10.9.9.9"}, "10.9.9.9", false},
		{"empty", proxy, []string{"X-Forwarded-For: "}, "", false},
		{"Forwarded", proxy, []string{`Forwarded: for=198.51.100.7;proto=https;by=10.0.0.1`}, "198.51.100.7", true},
		{"Forwarded, IPv6", proxy, []string{`Forwarded: For="[2001:db8::7]:4711"; Proto=http`}, "2001:db8::7", false},
		{"Forwarded, forged", proxy, []string{`Forwarded: for=1.1.1.1;proto=https, for=198.51.100.7;proto=http`}, "198.51.100.7", false},
		{"Forwarded, two proxies", proxy, []string{`Forwarded: for=198.51.100.7;proto=https, for="10.9.9.9:80";proto=http`}, "198.51.100.7", true},
		{"Forwarded, hidden", proxy, []string{`Forwarded: for=_gazonk`}, "", false},
		{"Forwarded, garbage", proxy, []string{`Forwarded: ;;=,for`}, "", false},
		{"both", proxy, []string{"X-Forwarded-For: 198.51.100.7", "Forwarded: for=198.51.100.7;proto=https"}, "198.51.100.7", true},
		{"one handed on", proxy, []string{"X-Forwarded-For: 198.51.100.7", "Forwarded: for=1.1.1.1;proto=https"}, "", false},
		{"the other handed on", proxy, []string{"X-Forwarded-For: 1.1.1.1", "Forwarded: for=198.51.100.7"}, "", false},
		{"a peer that isn't believed", "203.0.113.5:5000", []string{"X-Forwarded-For: 198.51.100.7", "Forwarded: for=198.51.100.7;proto=https", "X-Forwarded-Proto: https"}, "", false},
		{"a neighbour of a proxy", "192.0.2.8:5000", []string{"X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: https"}, "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.RemoteAddr = c.peer
		for _, h := range c.headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		got := seenBy(t, o, r)
		want := c.peer
		if c.address != "" {
			want = strings.TrimSuffix(httpAddress(c.address), "/")
		}
		if got.RemoteAddr != want || (got.TLS != nil) != c.secure {
			t.Errorf("%s: from %s, TLS %v; want %s, %v", c.name, got.RemoteAddr, got.TLS != nil, want, c.secure)
		}
	}
}

// httpAddress is how RemoteAddr has an address whose port isn't known.
func httpAddress(a string) string {
	if strings.Contains(a, ":") {
		return "[" + a + "]:0"
	}
	return a + ":0"
}

func TestOutsideThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"gate.example.com", "ftp://gate.example.com", "https://", "https://gate.example.com/path", "https://*.example.com", "https://a@gate.example.com", "https://gate.example.com?x", "://"} {
		if _, err := ParseOutside(public, nil); err == nil {
			t.Errorf("the public URL %q is taken", public)
		}
	}
	for _, proxy := range []string{"", "everything", "10.0.0.0/33", "10.0.0", "gate.example.com"} {
		if _, err := ParseOutside("", []string{proxy}); err == nil {
			t.Errorf("the proxy %q is taken", proxy)
		}
	}
	o, err := ParseOutside("https://Gate.example.com:443/", nil)
	if err != nil || o.URL() != "https://gate.example.com" {
		t.Errorf("%q, %v", o.URL(), err)
	}
}

// A browser that has come through a proxy gets cookies for TLS, and is led by the public names alone.
func TestLoginBehindAProxy(t *testing.T) {
	t.Parallel()
	b, _ := loginBench(t, func(o *Options) {
		var err error
		if o.Outside, err = ParseOutside("https://gate.example.com:8443", nil); err != nil {
			t.Fatal(err)
		}
		o.Ports.Ingress.Domain = "apps.example.com"
	})
	const origin = "Origin: https://gate.example.com:8443"
	cookie, page := "Cookie: __Host-"+loginCookie+"="+secret("f"), pageHeader+": "+strings.Repeat("g", 43)
	for name, host := range map[string]string{"the host kept": "gate.example.com:8443", "its port dropped": "gate.example.com", "the gateway's address": "127.0.0.1:4280", "the gateway's name": "localhost:4280"} {
		host = "Host: " + host
		r := b.do("POST", "/api/v1/login", `{"code":"`+secret("l")+`"}`, host, origin, "Authorization: ")
		if has := r.Cookies(); r.StatusCode != http.StatusOK || len(has) != 1 || has[0].Name != "__Host-"+loginCookie || !has[0].Secure || has[0].Domain != "" || has[0].Path != "/" {
			t.Errorf("%s: the login: %d, %v", name, r.StatusCode, r.Header)
		}
		for what, headers := range map[string][]string{"a request": {host, cookie, page}, "one that names its page": {host, cookie, page, origin}} {
			if r := b.do("GET", "/api/v1/whoami", "", append([]string{"Authorization: "}, headers...)...); r.StatusCode != http.StatusOK {
				t.Errorf("%s: %s: status %d", name, what, r.StatusCode)
			}
		}
		b.refused("a page of others", b.do("GET", "/api/v1/whoami", "", "Authorization: ", host, cookie, page, "Origin: https://gate.example.com:9999"), http.StatusForbidden)
	}
	b.refused("a cookie that TLS didn't bring", b.do("GET", "/api/v1/whoami", "", "Authorization: ", "Host: gate.example.com", "Cookie: "+loginCookie+"="+secret("f"), page), http.StatusUnauthorized)
	b.refused("a name of others", b.do("GET", "/api/v1/whoami", "", "Host: evil.example", origin), http.StatusMisdirectedRequest)
	b.refused("a page without TLS", b.do("GET", "/api/v1/whoami", "", "Host: gate.example.com", "Origin: http://gate.example.com"), http.StatusForbidden)

	const port = "Host: 80--web--acme.apps.example.com"
	r := b.do("GET", "/a", "", port, "Authorization: ", "Accept: text/html")
	to, err := url.Parse(r.Header.Get("Location"))
	b.must(err)
	if has := r.Cookies(); r.StatusCode != http.StatusSeeOther || to.Scheme != "https" || to.Host != "gate.example.com:8443" || to.Path != loginPage || len(has) != 1 || has[0].Name != "__Host-"+stateCookie || !has[0].Secure {
		t.Fatalf("from a port it is sent to %s by %d, with %v", to, r.StatusCode, r.Cookies())
	}
	given, err := url.ParseQuery(to.Fragment)
	b.must(err)
	r = b.do("POST", "/api/v1/login/port", `{"host":"`+given.Get("host")+`","state":"`+given.Get("state")+`"}`, "Authorization: ", "Host: gate.example.com", origin, cookie, page)
	if got := read[GoTo](b, r).To; !strings.HasPrefix(got, "https://80--web--acme.apps.example.com:8443"+portLogin+"?") {
		t.Errorf("to the port it is sent to %s", got)
	}
	r = b.do("GET", "/", "", port, "Authorization: ", "Cookie: __Host-"+portCookie+"="+secret("c"))
	if text := readAll(b, r); r.StatusCode != http.StatusOK || !strings.Contains(text, "X-Forwarded-Proto: https") || !strings.Contains(text, "X-Forwarded-Host: 80--web--acme.apps.example.com:8443") {
		t.Errorf("the session gets %s", text)
	}
	r = b.do("GET", "/s/acme/web/80/x", "", "Host: gate.example.com", "Accept: text/html", "Authorization: Bearer "+secret("a"))
	if got := r.Header.Get("Location"); got != "https://80--web--acme.apps.example.com:8443/x" {
		t.Errorf("the path form leads to %s", got)
	}
}

// The client's address is that of rates and records, and of what the session gets; a client can't choose it.
func TestAddressBehindAProxy(t *testing.T) {
	t.Parallel()
	b, _ := doorBench(t, func(o *Options) {
		var err error
		if o.Outside, err = ParseOutside("", []string{"127.0.0.0/8", "::1"}); err != nil {
			t.Fatal(err)
		}
	})
	actor := make(chan string, 1)
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if a.token == secret("x") {
			return nil, schemas.FailedError(schemas.ReasonNoToken, "no such token")
		}
		select {
		case actor <- a.Actor:
		default:
		}
		return schemas.View{Name: a.Name, State: schemas.Running}, nil
	})
	if r := b.do("GET", "/api/v1/sessions/acme.web", "", "X-Forwarded-For: 1.1.1.1, 198.51.100.7"); r.StatusCode != http.StatusOK {
		t.Fatalf("status %d", r.StatusCode)
	}
	if got := <-actor; got != "http:198.51.100.7" {
		t.Errorf("the actor is %s", got)
	}
	text := readAll(b, b.do("GET", "/", "", web, "Authorization: Bearer "+secret("a"), "X-Forwarded-For: 1.1.1.1, 198.51.100.7", "X-Forwarded-Proto: https", "Forwarded: for=198.51.100.7"))
	if !strings.Contains(text, "X-Forwarded-For: 198.51.100.7\r\n") || !strings.Contains(text, "X-Forwarded-Proto: https") || strings.Contains(text, "\nForwarded:") || strings.Contains(text, "1.1.1.1") {
		t.Errorf("the session gets %s", text)
	}
	for range wrongAtOnce { // of one client; the next one isn't held to it
		b.do("GET", "/api/v1/sessions/acme.web", "", "Authorization: Bearer "+secret("x"), "X-Forwarded-For: 198.51.100.8")
	}
	if r := b.do("GET", "/api/v1/sessions/acme.web", "", "X-Forwarded-For: 198.51.100.9"); r.StatusCode != http.StatusOK {
		t.Errorf("a client beside one that tries tokens: status %d", r.StatusCode)
	}
}
