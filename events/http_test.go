package events

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestMiddleware(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	c := connect(t, Options{URL: srv.ClientURL()})
	which := func(r *http.Request) Use {
		return Use{Session: r.Header.Get("Session"), Reconnect: r.URL.Path == "/again"}
	}
	hijacked := make(chan net.Conn, 1)
	web := httptest.NewServer(c.Middleware(which, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
			}
			hijacked <- conn
		}
	})))
	defer web.Close()
	request := func(path, session string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Session", session)
		return r
	}
	get := func(r *http.Request) {
		if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}
	get(request("/health", ""))
	get(request("/again", "acme/one"))
	if m, a := next(t, heard); m.Subject != "diapause.v1.activity.acme.one.http" || a.Intent != "reconnect" {
		t.Errorf("heard %s %+v", m.Subject, a)
	}
	upgrade := request("/ws", "two")
	upgrade.Header.Set("Connection", "keep-alive, Upgrade")
	upgrade.Header.Set("Upgrade", "websocket")
	go get(upgrade)
	var presence string
	for presence == "" {
		if m, a := next(t, heard); strings.Contains(m.Subject, ".two.presence.") && !a.Released {
			presence = m.Subject
		}
	}
	(<-hijacked).Close() // its handler has returned before
	for {
		if m, a := next(t, heard); m.Subject == presence && a.Released {
			break
		}
	}
}

// A request that lasts is a connection, for as long as it lasts; a session's name that
// can't be one stops no request.
func TestLongRequest(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	told := make(chan error, 10)
	c := connect(t, Options{URL: srv.ClientURL(), OnError: func(err error) { told <- err }})
	c.long = time.Millisecond
	enough := make(chan struct{})
	web := httptest.NewServer(c.Middleware(func(r *http.Request) Use { return Use{Session: r.URL.Path[1:]} },
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/web" {
				<-enough
			}
		})))
	defer web.Close()
	resp, err := http.Get(web.URL + "/a.b")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("with a name that is none: %v, %v", resp, err)
	}
	resp.Body.Close()
	if err := <-told; !strings.Contains(err.Error(), "a.b") {
		t.Errorf("told %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.Get(web.URL + "/web"); err == nil {
			resp.Body.Close()
		}
	}()
	presence := ""
	for presence == "" {
		if m, a := next(t, heard); strings.Contains(m.Subject, ".web.presence.") && a.Reason == "http /web" {
			presence = m.Subject
		}
	}
	close(enough)
	<-done
	for {
		if m, a := next(t, heard); m.Subject == presence && a.Released {
			return
		}
	}
}
