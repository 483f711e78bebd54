package gateway

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// inside is sessions with one server in all of them, which answers with the headers that it gets.
type inside struct {
	address string
	exposed atomic.Pointer[[]schemas.ExposedPort]
	used    atomic.Int64 // resumes, leases and connections
	open    chan struct{}
}

func newInside(t *testing.T) *inside {
	in := &inside{open: make(chan struct{}, 1)}
	in.exposed.Store(&[]schemas.ExposedPort{{Port: 81, Access: schemas.AccessToken}, {Port: 82, Access: schemas.AccessPublic}})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/open" { // until it is cut
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			in.open <- struct{}{}
			<-r.Context().Done()
			return
		}
		w.Header().Set("Set-Cookie", "own=1; Domain=localhost")
		w.Header().Add("Set-Cookie", "diapause-login=planted")
		w.Header().Set("Clear-Site-Data", `"cookies"`)
		fmt.Fprintln(w, r.RequestURI, r.Host)
		_ = r.Header.Write(w)
	}))
	t.Cleanup(srv.Close)
	in.address = srv.Listener.Addr().String()
	return in
}

func (in *inside) view(n schemas.Name) (schemas.View, error) {
	if n.Session == "none" {
		return schemas.View{}, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no such session"}
	}
	return schemas.View{Name: n.String(), UID: "u-" + schemas.UID(n.Session), State: schemas.Running, Exposed: *in.exposed.Load()}, nil
}

func (in *inside) Look(_ context.Context, t ingress.Target) (schemas.View, error) {
	if t.UID != "" {
		return in.view(schemas.Name{Tenant: "acme", Session: schemas.SessionID(strings.TrimPrefix(string(t.UID), "u-"))})
	}
	return in.view(t.Name)
}

func (in *inside) Ensure(_ context.Context, n schemas.Name, _ ingress.Why) (schemas.View, error) {
	in.used.Add(1)
	return in.view(n)
}

func (in *inside) Follow(schemas.Name, func(schemas.Progress)) func() { return func() {} }

func (in *inside) Hold(schemas.Name, ingress.Why, bool) func() {
	in.used.Add(1)
	return func() {}
}

func (in *inside) Dial(ctx context.Context, _ schemas.View, _ uint16) (net.Conn, error) {
	in.used.Add(1)
	return new(net.Dialer).DialContext(ctx, "tcp", in.address)
}

// secret is a token that looks like one.
func secret(letter string) string { return schemas.TokenPrefix + strings.Repeat(letter, 43) }

// doorBench is a gateway that leads to ports: token a may use acme/web, token o all of other.
func doorBench(t *testing.T, with func(*Options)) (*bench, *inside) {
	t.Helper()
	in := newInside(t)
	b := newBench(t, func(o *Options) {
		o.Ports = &Ports{Ingress: ingress.Options{Waker: in, Leaser: in, Dialer: in}}
		if with != nil {
			with(o)
		}
	})
	b.answers("reach", func(a asked) (any, *schemas.APIError) {
		n, _ := schemas.ParseName(a.Name)
		switch {
		case a.token == secret("a") && !a.Reach.Page && n.String() == "acme/web", a.token == secret("p") && !a.Reach.Page, a.token == secret("o") && !a.Reach.Page && n.Tenant == "other",
			a.token == secret("c") && a.Reach.Page && n.String() == "acme/web" && a.Reach.Port == 80:
			return schemas.Reach{Actor: "token:" + a.token[4:8], Port: a.Reach.Port}, nil
		case a.token == secret("a"), a.token == secret("o"):
			return nil, schemas.FailedError(schemas.ReasonDenied, "not for it")
		}
		return nil, schemas.FailedError(schemas.ReasonNoToken, "no such token")
	})
	return b, in
}

const web = "Host: 80--web.acme.localhost:4280"

// abuses are what clients and pages try at ports, and what they get: 0 is what the session answers.
var abuses = []struct {
	name    string
	path    string
	status  int
	headers []string
}{
	{"a token", "/", 0, []string{web, "Authorization: Bearer " + secret("a")}},
	{"a token beside the session's own login", "/", 0, []string{web, "Authorization: Basic eDp5", "Diapause-Token: " + secret("a")}},
	{"a token of another tenant", "/", 403, []string{web, "Authorization: Bearer " + secret("o")}},
	{"a token of another tenant, by the path", "/s/acme/web/80/", 403, []string{"Authorization: Bearer " + secret("o")}},
	{"a token of another tenant, by the uid", "/", 403, []string{"Host: 80--uid--u-web.localhost", "Authorization: Bearer " + secret("o")}},
	{"a token, by the uid", "/", 0, []string{"Host: 80--uid--u-web.localhost", "Authorization: Bearer " + secret("a")}},
	{"a token of another session", "/", 403, []string{"Host: 80--db.acme.localhost", "Authorization: Bearer " + secret("a")}},
	{"a token that there isn't", "/", 401, []string{web, "Authorization: Bearer " + secret("x")}},
	{"a token that there isn't, at a public port", "/", 401, []string{"Host: 82--web.acme.localhost", "Authorization: Bearer " + secret("x")}},
	{"a token as a user's name", "/", 401, []string{web, "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(secret("a")+":"))}},
	{"a token in the query", "/?token=" + secret("a"), 400, []string{web, "Authorization: Bearer " + secret("a")}},
	{"an escaped token in the query", "/?token=%64pt_" + strings.Repeat("a", 43), 400, []string{web, "Authorization: Bearer " + secret("a")}},
	{"a token in the path", "/" + secret("a"), 400, []string{"Host: 82--web.acme.localhost"}},
	{"nothing", "/", 401, []string{web}},
	{"nothing, of a session that isn't there", "/", 401, []string{"Host: 80--none.acme.localhost"}},
	{"nothing, by the path", "/s/acme/web/82/", 401, nil},
	{"a public port", "/", 0, []string{"Host: 82--web.acme.localhost"}},
	{"a public port of a session that isn't there", "/", 401, []string{"Host: 82--none.acme.localhost"}},
	{"a port for tokens", "/", 401, []string{"Host: 81--web.acme.localhost"}},
	{"a cookie of the port", "/", 0, []string{web, "Cookie: diapause-port=" + secret("c")}},
	{"a cookie of the port behind planted ones", "/", 0, []string{web, "Cookie: diapause-port=" + secret("p") + "; diapause-port=" + secret("c")}},
	{"too many planted cookies", "/", 401, []string{web, "Cookie: " + strings.Repeat("diapause-port="+secret("p")+"; ", 4) + "diapause-port=" + secret("c")}},
	{"a cookie of another port", "/", 401, []string{"Host: 81--web.acme.localhost", "Cookie: diapause-port=" + secret("c")}},
	{"a cookie of another session", "/", 401, []string{"Host: 80--db.acme.localhost", "Cookie: diapause-port=" + secret("c")}},
	{"a cookie by the path", "/s/acme/web/80/", 401, []string{"Cookie: diapause-port=" + secret("c")}},
	{"a cookie as a token", "/", 401, []string{web, "Authorization: Bearer " + secret("c")}},
	{"a token as a cookie", "/", 403, []string{web, "Cookie: diapause-port=" + secret("a")}},
	{"the login of the API as a cookie", "/", 401, []string{web, "Cookie: diapause-login=" + secret("c")}},
	{"a cookie for a page of another site", "/", 403, []string{web, "Cookie: diapause-port=" + secret("c"), "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}},
	{"a cookie for an image of another session", "/", 403, []string{web, "Cookie: diapause-port=" + secret("c"), "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
	{"a cookie for a frame of another session", "/", 403, []string{web, "Cookie: diapause-port=" + secret("c"), "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}},
	{"a cookie for a script of another session", "/", 403, []string{web, "Cookie: diapause-port=" + secret("c"), "Origin: http://80--db.acme.localhost:4280"}},
	{"a cookie for a script of no origin", "/", 403, []string{web, "Cookie: diapause-port=" + secret("c"), "Origin: null"}},
	{"a cookie for a link", "/", 0, []string{web, "Cookie: diapause-port=" + secret("c"), "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}},
	{"a cookie for its own page", "/", 0, []string{web, "Cookie: diapause-port=" + secret("c"), "Sec-Fetch-Site: same-origin", "Origin: http://80--web.acme.localhost:4280"}},
	{"a name of others", "/", 421, []string{"Host: 80--web.acme.example.com", "Authorization: Bearer " + secret("a")}},
	{"a name that ends like one of a session", "/", 421, []string{"Host: 80--web.acme.evillocalhost", "Authorization: Bearer " + secret("a")}},
	{"no port", "/", 421, []string{"Host: web.acme.localhost", "Authorization: Bearer " + secret("a")}},
	{"a path below the API's host without a session", "/s/", 404, nil},
}

func TestAbusesOfPorts(t *testing.T) {
	t.Parallel()
	b, in := doorBench(t, nil)
	for _, c := range abuses {
		before := in.used.Load()
		r := b.do("GET", c.path, "", append([]string{"Authorization: ", "Accept: application/json"}, c.headers...)...)
		text := readAll(b, r)
		if c.status == 0 && r.StatusCode != http.StatusOK || c.status != 0 && r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, r.StatusCode, c.status, text)
		}
		if c.status != 0 && in.used.Load() != before {
			t.Errorf("%s: it is refused, and the session was used", c.name)
		}
		if strings.Contains(text, schemas.TokenPrefix) || strings.Contains(strings.ToLower(text), "diapause-") && c.status == 0 {
			t.Errorf("%s: the session gets %s", c.name, text)
		}
		if r.Header.Get("Clear-Site-Data") != "" || strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), " "), "planted") {
			t.Errorf("%s: the answer has %v", c.name, r.Header)
		}
	}
}

func TestAPIOfHostsOfPorts(t *testing.T) {
	t.Parallel()
	b, _ := doorBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{secret("a"): {Actor: "token:a"}})
	r := b.do("GET", "/api/v1/whoami", "", web, "Authorization: Bearer "+secret("a"))
	if text := readAll(b, r); !strings.HasPrefix(text, "/api/v1/whoami 80--web.acme.localhost:4280") {
		t.Errorf("the API answers at the host of a port: %s", text)
	}
	b.refused("a page of a session", b.do("GET", "/api/v1/whoami", "", "Host: localhost:4280", "Authorization: Bearer "+secret("a"), "Origin: http://80--web.acme.localhost:4280"), http.StatusForbidden)
	b.refused("the cookie of a port", b.do("GET", "/api/v1/whoami", "", "Host: localhost:4280", "Authorization: ", "Cookie: diapause-port="+secret("c")), http.StatusUnauthorized)
	r = b.do("GET", "/s/acme/web/80/a?b=c", "", "Authorization: Bearer "+secret("a"), "Accept: application/json", "Cookie: own=1")
	if text := readAll(b, r); r.Header.Get("Content-Security-Policy") != "sandbox" || r.Header.Get("Set-Cookie") != "" || !strings.HasPrefix(text, "/a?b=c ") || strings.Contains(text, "Cookie") {
		t.Errorf("the path form answers %v, and the session gets %s", r.Header, text)
	}
}

func TestNoPublicPorts(t *testing.T) {
	t.Parallel()
	b, in := doorBench(t, func(o *Options) { o.Ports.NoPublic = true })
	r := b.do("GET", "/", "", "Authorization: ", "Host: 82--web.acme.localhost", "Accept: application/json")
	if r.StatusCode != http.StatusUnauthorized || in.used.Load() != 0 {
		t.Errorf("a public port: %d", r.StatusCode)
	}
}

// A request that is open ends when its port isn't public any more.
func TestRequestsEndWithTheRight(t *testing.T) {
	t.Parallel()
	b, in := doorBench(t, nil)
	b.gate.doors.reaches.every = 10 * time.Millisecond
	r := b.do("GET", "/open", "", "Authorization: ", "Host: 82--web.acme.localhost")
	<-in.open
	in.exposed.Store(&[]schemas.ExposedPort{})
	if _, err := r.Body.Read(make([]byte, 1)); err == nil {
		t.Error("it goes on")
	}
}

func TestHostsOfPortsArentTheGateways(t *testing.T) {
	t.Parallel()
	in := newInside(t)
	b := newBench(t, nil)
	for _, host := range []string{"80--web.acme.localhost", "80--uid--x.localhost"} {
		_, err := New(Options{NC: b.nc, Version: "1.0.0", Hosts: []string{host}, Ports: &Ports{Ingress: ingress.Options{Waker: in, Leaser: in, Dialer: in}}})
		if err == nil {
			t.Errorf("%s is taken", host)
		}
	}
}
