package gateway

import (
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// share is what the API says of one.
type share struct {
	ID, Token, Until string
	Watching         int
}

// watch watches by a share.
func (w *world) watch(token string) *client {
	w.Helper()
	ws, _, err := websocket.Dial(w.Context(), "ws://"+w.address+"/api/v1/shared", &websocket.DialOptions{
		Subprotocols: []string{"diapause.terminal.v1", "diapause.token." + token},
	})
	w.must(err)
	ws.SetReadLimit(64 << 20)
	c := &client{world: w, ws: ws, screen: screen.New(24, 80), changed: make(chan struct{})}
	w.Cleanup(func() { _ = ws.CloseNow() })
	c.say(object{"type": "attach", "client": "watcher"})
	return c.reads()
}

// ends waits for the end of a socket, and gives it.
func (c *client) ends() websocket.StatusCode {
	c.Helper()
	for {
		c.mu.Lock()
		changed, ended := c.changed, c.ended
		c.mu.Unlock()
		if ended != nil {
			return websocket.CloseStatus(ended)
		}
		select {
		case <-changed:
		case <-c.Context().Done():
			c.Fatal("it never ends")
		}
	}
}

// TestShare: one client uses a terminal, and another watches it, through a suspend, until the share is taken back, and by
// another share until the session is removed.
func TestShare(t *testing.T) {
	w := newWorld(t)
	a := asks{w, w.address, w.token("--role", "owner", "--tenant", "default")}
	op := asks{w, w.address, w.token("--role", "operator")}
	op.call("POST", "/api/v1/sessions", 201, shell("work"), nil)
	owner := w.dial(w.address, a.token, "work", object{"rows": 30, "cols": 90, "asleep": true}).reads()
	owner.sees("$")
	owner.types(0, "echo se''cret; printf '\\033[2J\\033[H'; echo before''hand\r")
	owner.sees("beforehand")
	var one, two share
	a.call("POST", "/api/v1/sessions/{session=work}/shares", 201, object{"for": "1h", "reason": "a demo"}, &one)
	a.call("POST", "/api/v1/sessions/{session=work}/shares", 201, object{"for": "1h"}, &two)
	watcher := w.watch(one.Token)
	watcher.sees("beforehand")
	watcher.hears("the size of the terminal", func(m told) bool { return m.Type == "size" && m.Rows == 30 && m.Cols == 90 })
	owner.types(owner.typed, "echo li''ve; stty size\r")
	watcher.sees("live\n30 90")
	watcher.mu.Lock()
	if strings.Contains(string(watcher.output)+watcher.shows(), "secret") {
		t.Errorf("it sees what was printed before: %q", watcher.output)
	}
	watcher.mu.Unlock()
	var v struct {
		Shares []share
	}
	op.call("GET", "/api/v1/sessions/{session=work}", 200, nil, &v)
	if len(v.Shares) != 2 || v.Shares[0].ID != one.ID || v.Shares[0].Watching != 1 || v.Shares[1].Watching != 0 || v.Shares[0].Token != "" {
		t.Errorf("shown are %+v", v.Shares)
	}

	op.call("POST", "/api/v1/sessions/{session=work}/suspend", 200, nil, nil)
	watcher.hears("that it is suspended", func(m told) bool { return m.State == "suspended" })
	late := w.watch(two.Token)
	late.hears("that it is suspended", func(m told) bool { return m.State == "suspended" })
	late.sees("live\n30 90")
	owner.types(owner.typed, "echo a''wake\r")
	watcher.sees("awake")
	late.sees("awake")

	a.call("DELETE", "/api/v1/sessions/{session=work}/shares/{share="+one.ID+"}", 200, nil, nil)
	if code := watcher.ends(); code != websocket.StatusInternalError {
		t.Errorf("it ends with %d; %+v", code, watcher.told)
	}
	watcher.mu.Lock()
	if last := watcher.told[len(watcher.told)-1]; last.Problem == nil || last.Problem.Reason != schemas.ReasonNoToken {
		t.Errorf("it is told %+v at last", last)
	}
	watcher.mu.Unlock()
	owner.types(owner.typed, "echo st''ill\r")
	late.sees("still")
	op.call("DELETE", "/api/v1/sessions/{session=work}", 200, nil, nil)
	late.ends()

	// Who may only look shares nothing, and one who shares with a token takes that along when it ends.
	op.call("POST", "/api/v1/sessions", 201, shell("work"), nil)
	for _, role := range []string{"reader", "client", "publisher"} {
		less := asks{w, w.address, w.token("--role", role, "--tenant", "default")}
		less.call("POST", "/api/v1/sessions/{session=work}/shares", 403, object{"for": "1h"}, nil)
		less.call("DELETE", "/api/v1/sessions/{session=work}/shares", 403, nil, nil)
	}
	a.call("POST", "/api/v1/sessions/{session=work}/shares", 201, object{"for": "1h"}, &one)
	last := w.watch(one.Token)
	last.sees("$")
	_, id, _ := strings.Cut(w.whoami(a.token), "token:")
	_, err := w.Must("token", "revoke", id)
	w.must(err)
	last.ends()
}

// whoami is the actor that a token is.
func (w *world) whoami(token string) string {
	w.Helper()
	var me struct{ Actor string }
	asks{w, w.address, token}.call("GET", "/api/v1/whoami", 200, nil, &me)
	return me.Actor
}
