package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// The console is for anyone to load, as it says nothing; what it shows takes a token.
func TestConsoleIsServed(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, path := range []string{"/", "/console/main.js", "/console/vendor/xterm.mjs"} {
		r := b.do("GET", path, "", "Authorization: ")
		h := r.Header
		if csp := h.Get("Content-Security-Policy"); r.StatusCode != http.StatusOK || !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe-inline") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, %v", path, r.StatusCode, h)
		}
	}
	b.refused("another method", b.do("POST", "/", ""), http.StatusMethodNotAllowed)
	b.refused("a file that there isn't", b.do("GET", "/console/none.js", "", "Authorization: "), http.StatusNotFound)
	b.refused("a name of others", b.do("GET", "/", "", "Authorization: ", "Host: evil.example"), http.StatusMisdirectedRequest)
	b.refused("what it shows", b.do("GET", "/api/v1/sessions", "", "Authorization: "), http.StatusUnauthorized)
}

// The host of a port isn't the console's: the session answers there.
func TestConsoleIsNotAtPorts(t *testing.T) {
	t.Parallel()
	b, in := doorBench(t, nil)
	if text := readAll(b, b.do("GET", "/", "", web, "Authorization: Bearer "+secret("a"))); strings.Contains(text, "console") || in.used.Load() == 0 {
		t.Errorf("the port answers %s", text)
	}
}

// TestReachNamesTheURL: of a port that the token may reach, as the browser that asks reaches it.
func TestReachNamesTheURL(t *testing.T) {
	t.Parallel()
	b, _ := doorBench(t, nil)
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if a.token == secret("p") {
			return nil, schemas.FailedError(schemas.ReasonDenied, "not for it")
		}
		return schemas.View{Name: a.Name, UID: "u-1"}, nil
	})
	for host, want := range map[string]string{
		"localhost:4280":     "http://80--web.acme.localhost:4280/",
		"127.0.0.1:4280":     "http://80--web.acme.localhost:4280/",
		"192.0.2.7:4280":     "", // .localhost is the visitor's own machine
		"localhost":          "http://80--web.acme.localhost/",
		"[::1]:4280":         "http://80--web.acme.localhost:4280/",
		"198.51.100.20:4280": "",
	} {
		r := b.do("GET", "/api/v1/sessions/acme.web/ports/80", "", "Host: "+host, "Authorization: Bearer "+secret("a"))
		if got := read[Reach](b, r); r.StatusCode != http.StatusOK || got.URL != want || got.Port != 80 {
			t.Errorf("at %s: %d, %+v, want %s", host, r.StatusCode, got, want)
		}
	}
	r := b.do("GET", "/api/v1/sessions/acme.web/ports/80", "", "Authorization: Bearer "+secret("p"))
	if got := read[Reach](b, r); r.StatusCode != http.StatusOK || got.URL != "" || got.Actor != "token:pppp" {
		t.Errorf("one that may reach the port alone gets %d, %+v", r.StatusCode, got)
	}
	b.refused("another tenant's", b.do("GET", "/api/v1/sessions/acme.web/ports/80", "", "Authorization: Bearer "+secret("o")), http.StatusForbidden)
}
