package protocol_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// What takes a session's place stays if it is well, and what it was is back if not; either
// way what it was is a snapshot.
func TestReplace(t *testing.T) {
	h := start(t)
	v := h.run("work")
	cp := h.do("checkpoint", schemas.Request{Name: "work"})
	at := h.count(v.UID)
	now := h.count(v.UID)
	replace := schemas.Request{Name: "work", Snapshot: cp.Snapshot.ID, Within: schemas.Duration(time.Millisecond)}
	var out schemas.View
	for _, c := range []struct {
		method string
		err    error
		says   string
	}{
		{"Health", errors.New("it coughs"), "it coughs"},
		{"Restore", &driver.Error{Kind: driver.Refused, Text: "no room"}, "no room"},
	} {
		h.fake.Script(c.method, fake.Step{Before: c.err})
		err := h.ask("replace", replace, &out)
		if code(err) != schemas.CodeFailed || !strings.Contains(err.Error(), "runs as it was") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s fails: %v", c.method, err)
		}
		if got := h.count(v.UID); got != now+1 {
			t.Errorf("%s failed; it counted to %d, and goes on with %d", c.method, now, got)
		} else {
			now = got
		}
		if got := h.get("work"); got.State != schemas.Running || got.Op != nil || got.Failure == nil || got.Failure.Op != schemas.OpProve {
			t.Errorf("%s failed; it is %s with %+v, failure %+v", c.method, got.State, got.Op, got.Failure)
		}
	}
	got := h.do("replace", replace)
	if got.Boot != "rollback" || got.Snapshot.ID != cp.Snapshot.ID || h.count(v.UID) != at {
		t.Errorf("boot %q, snapshot %q; it doesn't go on with %d", got.Boot, got.Snapshot.ID, at)
	}
	if r := h.get("work"); r.Failure != nil || r.Op != nil {
		t.Errorf("it is well, and has %+v, %+v", r.Failure, r.Op)
	}
	var kept []schemas.SnapshotView
	if err := h.ask("snapshots", schemas.Request{Name: "work"}, &kept); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(kept, func(s schemas.SnapshotView) bool { return s.Trigger == "before_replace" && !s.Head }) {
		t.Errorf("what was replaced is no snapshot: %+v", kept)
	}
	h.audited()
}

// Whoever removes or kills a session while what took its place is looked at is first.
func TestEndedWhileItIsProved(t *testing.T) {
	for _, verb := range []string{"kill", "rm"} {
		h := start(t)
		h.run("work")
		h.do("checkpoint", schemas.Request{Name: "work"})
		answer := make(chan error, 1)
		go func() {
			var out schemas.View
			answer <- h.ask("replace", schemas.Request{Name: "work", Within: schemas.Duration(limit)}, &out)
		}()
		h.until("work", "being proved", func(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpProve })
		h.do(verb, schemas.Request{Name: "work"})
		if err := <-answer; code(err) != schemas.CodeState {
			t.Errorf("%s: replace answers %v", verb, err)
		}
		h.audited()
	}
}
