package api

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

var ann = Caller{Identity: "client", Note: "cli:ann"}

// Who asks, with a reason, for what another asked for first finds it in the history.
func TestJoined(t *testing.T) {
	b := newBench(t)
	v := b.running()
	v = b.swap(v, schemas.TSuspend, schemas.Set{Op: &schemas.Op{ID: "o2", Kind: schemas.OpSuspend}})
	v = b.swap(v, schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "acme/u/1-1"}})
	v, err := b.records.Swap(b.ctx, v, schemas.Transition{Type: schemas.TResume, Actor: "scheduler", Reason: "activity", Op: "o3", Evidence: &schemas.Evidence{}, Set: schemas.Set{Host: "h", Op: &schemas.Op{ID: "o3", Kind: schemas.OpResume}}})
	b.must(err)

	answered := make(chan error, 1)
	go func() {
		_, err := b.server.Call(b.ctx, ann, "ensure", schemas.Request{Name: agent.String(), Reason: "the demo begins"})
		answered <- err
	}()
	b.heardAny() // it is beyond looking at the record for the first time
	b.swap(v, schemas.TResumed, schemas.Set{})
	b.must(<-answered)

	all, err := b.server.Call(b.ctx, ann, "history", schemas.Request{Name: agent.String()})
	b.must(err)
	for _, tr := range all.([]schemas.TransitionView) {
		switch {
		case tr.Type != schemas.TResume && len(tr.Joined) > 0:
			t.Errorf("%s was joined: %+v", tr.Type, tr.Joined)
		case tr.Type == schemas.TResume && (len(tr.Joined) != 1 || tr.Joined[0].Actor != "client" || tr.Joined[0].Note != "cli:ann" || tr.Joined[0].Reason != "the demo begins" || tr.Joined[0].At.IsZero()):
			t.Errorf("the resume was joined by %+v", tr.Joined)
		}
	}
	b.server.look.scheduler = explainer{}
	got, err := b.server.Call(b.ctx, ann, "explain", schemas.Request{Name: agent.String()})
	b.must(err)
	if e := got.(schemas.Explanation); e.Decided == nil || e.Decided.Type != schemas.TResume || len(e.Decided.Joined) != 1 || e.Decided.Joined[0].Reason != "the demo begins" {
		t.Errorf("what was decided last is explained by %+v", e.Decided)
	}
}

// heardAny waits until activity was published.
func (b *bench) heardAny() {
	b.Helper()
	for {
		s, err := b.js.Stream(b.ctx, stream.NamesWith("").Activity())
		b.must(err)
		if s.CachedInfo().State.Msgs > 0 {
			return
		}
		select {
		case <-b.ctx.Done():
			b.Fatal("no activity was published")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// What is joined is what began what was asked for, and nothing that the log has already.
func TestWhatIsJoined(t *testing.T) {
	rev := func(version uint64, of schemas.TransitionType, op, actor, reason string) statekv.Versioned {
		return statekv.Versioned{SessionRecord: schemas.SessionRecord{UID: "u", Version: version, Transition: schemas.Transition{Type: of, Op: op, Actor: actor, Reason: reason}}}
	}
	at := func(op, kind string) (r schemas.SessionRecord) {
		if r.UID = "u"; op != "" {
			r.Op = &schemas.Op{ID: op, Kind: kind}
		}
		return r
	}
	resume := rev(4, schemas.TResume, "o3", "scheduler", "activity")
	resumed := []statekv.Versioned{rev(5, schemas.TClaimed, "o3", "worker", ""), rev(6, schemas.TResumed, "o3", "worker", "")}
	own := rev(4, schemas.TResume, "o3", "client", "why")
	own.Transition.Note = "cli:ann"
	undone := rev(3, schemas.TSuspendAborted, "o2", "worker", "activity")
	other := resume
	other.UID = "v"
	for name, c := range map[string]struct {
		since   []statekv.Versioned
		before  schemas.SessionRecord
		to      answer
		op      string
		version uint64
	}{
		"asked for before it":       {resumed, at("o3", schemas.OpResume), toRun, "o3", 0},
		"asked for since":           {append([]statekv.Versioned{resume}, resumed...), at("", ""), toRun, "o3", 4},
		"it ran already":            {nil, at("", ""), toRun, "", 0},
		"its own":                   {append([]statekv.Versioned{own}, resumed...), at("", ""), toRun, "", 0},
		"a suspend is undone":       {[]statekv.Versioned{undone}, at("o2", schemas.OpSuspend), toRun, "o2", 3},
		"a suspend that goes on":    {[]statekv.Versioned{rev(3, schemas.TSuspended, "o2", "worker", "")}, at("o2", schemas.OpSuspend), toSuspend, "o2", 0},
		"a checkpoint on the way":   {nil, at("o2", schemas.OpCheckpoint), toRun, "", 0},
		"a suspend was asked first": {nil, at("o2", schemas.OpSuspend), toRun, "", 0},
		"a session of that name":    {[]statekv.Versioned{other}, at("", ""), toRun, "", 0},
	} {
		op, version := c.to.joined(c.since, c.before, request{schemas.Request{Reason: "why"}, ann})
		if op != c.op || version != c.version {
			t.Errorf("%s: joined op %q, version %d, want %q, %d", name, op, version, c.op, c.version)
		}
	}
}
