package events

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Use is what a request means for a session. The zero Use means nothing: health
// checks and who only looks must not keep a session awake.
type Use struct {
	Session   string // "tenant/id"; none if empty
	Reconnect bool   // a program came back by itself: it neither counts nor wakes
}

// long is when a request counts as a connection: from then on a person is present.
const long = 5 * time.Second

// Middleware says for every request what it means: an http activity, and for as long
// as a long request, an event stream or a websocket lives, a presence lease. which
// tells what a request is for. It never changes or delays a request; a session's
// name that isn't valid is told to OnError.
func (c *Client) Middleware(which func(*http.Request) Use, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := which(r)
		if u.Session == "" {
			next.ServeHTTP(w, r)
			return
		}
		s, err := c.Session(u.Session)
		if err != nil {
			c.tell(err)
			next.ServeHTTP(w, r)
			return
		}
		s.HTTP(u.how()...)
		v := &visit{s: s, how: append(u.how(), Because("http "+clip(r.URL.Path)))}
		defer v.returned()
		if upgrades(r) {
			v.begin()
			w = &upgradable{ResponseWriter: w, visit: v}
		} else {
			v.later = time.AfterFunc(c.long, v.begin)
		}
		next.ServeHTTP(w, r)
	})
}

func (u Use) how() []How {
	if u.Reconnect {
		return []How{Reconnected}
	}
	return nil
}

func clip(path string) string {
	const most = 80
	if len(path) > most {
		return path[:most] + "…"
	}
	return path
}

func upgrades(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// visit is the presence of one request.
type visit struct {
	s     Session
	how   []How
	later *time.Timer

	mu       sync.Mutex
	lease    *Lease
	hijacked bool
	over     bool
}

func (v *visit) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	l, err := v.s.Present(context.Background(), "", schemas.DefaultLease, v.how...)
	if err != nil {
		v.s.c.tell(err)
		return
	}
	v.lease = l
}

// returned ends the visit with its handler, unless that left its connection to
// another.
func (v *visit) returned() {
	v.mu.Lock()
	hijacked := v.hijacked
	v.mu.Unlock()
	if !hijacked {
		v.end()
	}
}

func (v *visit) end() {
	if v.later != nil {
		v.later.Stop()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	if v.lease != nil {
		_ = v.lease.Close() // never fails
	}
}

// upgradable sees to it that the presence of a websocket ends with its connection,
// not with the handler that made it.
type upgradable struct {
	http.ResponseWriter
	visit *visit
}

// Unwrap is for http.ResponseController.
func (u *upgradable) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack implements http.Hijacker.
func (u *upgradable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return conn, rw, err
	}
	u.visit.mu.Lock()
	u.visit.hijacked = true
	u.visit.mu.Unlock()
	return &visited{Conn: conn, visit: u.visit}, rw, nil
}

// Flush implements http.Flusher, for handlers that stream without upgrading.
func (u *upgradable) Flush() { _ = http.NewResponseController(u.ResponseWriter).Flush() }

// visited is a connection whose end ends a visit.
type visited struct {
	net.Conn
	visit *visit
}

func (v *visited) Close() error {
	v.visit.end()
	return v.Conn.Close()
}
