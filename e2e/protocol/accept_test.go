package protocol_test

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
)

// A person may end the time in which what took a session's place has to get well: it stays,
// or what it was comes back, and anyone who waits for the replacement hears of it.
func TestAcceptAndReject(t *testing.T) {
	h := start(t)
	run := h.run("work")
	cp := h.do("checkpoint", schemas.Request{Name: "work"})
	at := h.count(run.UID)
	now := h.count(run.UID)
	replace := func() <-chan error {
		h.fake.Script("Health", fake.Step{Block: make(chan struct{})}) // nothing is known of its health
		answer := make(chan error, 1)
		go func() {
			var out schemas.View
			answer <- h.ask("replace", schemas.Request{Name: "work", Snapshot: cp.Snapshot.ID, Within: schemas.Duration(limit)}, &out)
		}()
		h.until("work", "on trial", func(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpProve })
		return answer
	}
	answer := replace()
	back := h.do("reject", schemas.Request{Name: "work", Reason: "the page is blank"})
	if back.State != schemas.Running || back.Boot != "resume" {
		t.Errorf("rejected, it is %s, boot %q", back.State, back.Boot)
	}
	if got := h.count(run.UID); got != now+1 {
		t.Errorf("it counted to %d, and goes on with %d", now, got)
	}
	if err := <-answer; code(err) != schemas.CodeFailed || !strings.Contains(err.Error(), "the page is blank") {
		t.Errorf("who asked for what was rejected hears: %v", err)
	}
	answer = replace()
	v := h.do("accept", schemas.Request{Name: "work", Reason: "good enough"})
	if v.State != schemas.Running || v.Op != "" || v.LastTransition.Reason != "good enough" {
		t.Errorf("accepted, it is %s, op %q: %+v", v.State, v.Op, v.LastTransition)
	}
	if err := <-answer; err != nil {
		t.Errorf("who asked for what was accepted hears: %v", err)
	}
	if got := h.count(run.UID); got != at {
		t.Errorf("it goes on with %d, and not with %d as the snapshot did", got, at)
	}
	h.audited()
}
