package protocol_test

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
)

// restart ends the NATS server, and begins it again where it was.
func (h *host) restart() {
	h.t.Helper()
	h.server.Shutdown()
	h.server.WaitForShutdown()
	h.serve()
	for deadline := time.Now().Add(limit); ; {
		if h.nc.FlushTimeout(time.Second) == nil && h.client.FlushTimeout(time.Second) == nil && h.answers() {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal("the connections don't come back")
		}
	}
}

// answers reports whether JetStream is there with its streams.
func (h *host) answers() bool {
	for _, name := range []string{h.names.SessionStream(), h.names.Activity(), h.names.Events(), h.names.Commands()} {
		if _, err := h.js.Stream(h.ctx, name); err != nil {
			return false
		}
	}
	return true
}

// A server that goes away and comes back: no part ends, what was under way is
// carried out or undone, and the session goes on where it was.
func TestServerRestarts(t *testing.T) {
	for name, method := range map[string]string{"at rest": "", "in a capture": "Capture", "in a restore": "Restore"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			v := h.run("work")
			n := h.count(v.UID)
			verb, end := "suspend", schemas.Suspended
			if method == "Restore" {
				h.do("suspend", schemas.Request{Name: "work"})
				verb, end = "resume", schemas.Running
			}
			if method != "" {
				entered, release := make(chan struct{}, 1), make(chan struct{})
				h.fake.Script(method, fake.Step{Entered: entered, Block: release})
				go func() {
					var out any
					_ = h.ask(verb, schemas.Request{Name: "work"}, &out) // the answer may be lost
				}()
				<-entered
				h.restart()
				close(release)
				h.until("work", string(end), func(v statekv.Versioned) bool { return v.State == end && v.Op == nil })
			} else {
				h.restart()
			}
			var out any
			for deadline := time.Now().Add(limit); h.ask("ensure", schemas.Request{Name: "work"}, &out) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the session can't be used any more")
				}
			}
			if m := h.count(v.UID); m != n+1 {
				t.Errorf("it counted to %d, and goes on with %d", n, m)
			}
			h.do("suspend", schemas.Request{Name: "work"})
			h.do("rm", schemas.Request{Name: "work"})
			h.audited()
		})
	}
}
