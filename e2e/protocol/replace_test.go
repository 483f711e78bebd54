package protocol_test

import (
	"context"
	"encoding/json"
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
		if code(err) != schemas.CodeFailed || schemas.ReasonOf(err) != schemas.ReasonFellBack || !strings.Contains(err.Error(), cp.Snapshot.ID) || !strings.Contains(err.Error(), c.says) {
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

// Anyone who removes or kills a session while what took its place is looked at is first.
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

// What stands still by itself, for its host's lease ran out, is not judged meanwhile: it goes
// on when that is renewed, still on trial.
func TestProvedWhileItStandsStill(t *testing.T) {
	h := start(t)
	v := h.run("work")
	h.do("checkpoint", schemas.Request{Name: "work"})
	answer := make(chan error, 1)
	go func() {
		var out schemas.View
		answer <- h.ask("replace", schemas.Request{Name: "work", Within: schemas.Duration(limit)}, &out)
	}()
	h.until("work", "being proved", func(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpProve })
	// A lease that is renewed between two looks leaves nothing to see: it runs out again then.
	seen := make(chan struct{})
	go func() {
		for again := time.NewTicker(250 * time.Millisecond); ; {
			if i, err := h.fake.Inspect(context.Background(), v.UID); err == nil && i.State == driver.Running {
				h.fake.Fence(v.UID)
			}
			select {
			case <-seen:
				again.Stop()
				return
			case <-again.C:
			}
		}
	}()
	h.until("work", "on trial, and going on", func(v statekv.Versioned) bool {
		return v.Transition.Type == schemas.TKept && v.Op != nil && v.Op.Kind == schemas.OpProve
	})
	close(seen)
	h.count(v.UID)
	h.do("kill", schemas.Request{Name: "work"})
	if err := <-answer; code(err) != schemas.CodeState {
		t.Errorf("replace answers %v", err)
	}
	h.audited()
}

// Anyone who else waits for a session that is replaced has what it was go on elsewhere, when
// neither that nor what was to take its place can be restored here: no one would look at the
// other there.
func TestReplacedWhileAClientWaits(t *testing.T) {
	h := start(t)
	h.run("work")
	cp := h.do("checkpoint", schemas.Request{Name: "work"})
	hosts, err := h.js.KeyValue(h.ctx, h.names.Hosts())
	h.must(err)
	e, err := hosts.Get(h.ctx, "h")
	h.must(err)
	var other schemas.Host
	h.must(json.Unmarshal(e.Value(), &other))
	other.Host = "other"
	data, err := json.Marshal(other)
	h.must(err)
	_, err = hosts.Put(h.ctx, "other", data)
	h.must(err)

	entered, block := make(chan struct{}, 1), make(chan struct{})
	broken := &driver.Error{Kind: driver.Refused, Text: "no room"}
	h.fake.Script("Restore", fake.Step{Before: broken, Entered: entered, Block: block})
	h.fake.Script("Restore", fake.Step{Before: broken})
	answers := make(chan error, 2)
	ask := func(verb string, req schemas.Request) {
		var out schemas.View
		answers <- h.ask(verb, req, &out)
	}
	go ask("replace", schemas.Request{Name: "work", Snapshot: cp.Snapshot.ID})
	<-entered
	go ask("resume", schemas.Request{Name: "work"}) // which waits for as long as this test lasts
	time.Sleep(200 * time.Millisecond)              // until it does, which nothing says
	close(block)
	if err := <-answers; err == nil {
		t.Error("it was replaced, though nothing could be restored")
	}
	v := h.until("work", "resumed elsewhere", func(v statekv.Versioned) bool { return v.Host == "other" })
	if v.State != schemas.Resuming || v.Op == nil || v.Head == nil || *v.Op.Source != *v.Head || v.Op.Boot != "resume" {
		t.Errorf("it is %s on host %s, at %+v, with %+v", v.State, v.Host, v.Head, v.Op)
	}
}
