package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Whether a session is in use goes by activity and leases alone, and by nothing before its reader
// began to hear.
func TestInUse(t *testing.T) {
	policy, _ := session.PolicyFor("web", &schemas.Idle{Never: true})
	grace := policy.Grace.Seconds()
	for name, c := range map[string]struct {
		do    func(v *session.View)
		when  float64
		what  string
		until float64
	}{
		"it came to run a moment ago": {func(*session.View) {}, 1, "nothing counted", grace},
		"it came to run long ago":     {func(*session.View) {}, grace + 1, "", 0},
		"it was used": {
			func(v *session.View) { heard(v, 2, 100, schemas.KindInput, "", schemas.Activity{}) }, 101, "input", 100 + grace,
		},
		"it was used long ago": {
			func(v *session.View) { heard(v, 2, 100, schemas.KindInput, "", schemas.Activity{}) }, 101 + grace, "", 0,
		},
		"nothing was heard before": {func(v *session.View) { v.HeardSince = at(1000) }, 1001, "nothing counted", 1000 + grace},
		"a lease lives": {func(v *session.View) {
			heard(v, 2, 1, schemas.KindHold, "ann", schemas.Activity{TTL: schemas.Duration(time.Hour), Reason: "a demo"})
		}, grace + 10, "hold.ann: a demo", 3601},
	} {
		v := running()
		c.do(v)
		what, until := v.InUse(policy, at(c.when))
		if (what == "") != (c.what == "") || !strings.Contains(what, c.what) || c.what != "" && !until.Equal(at(c.until)) {
			t.Errorf("%s: %q until %s", name, what, until.Sub(t0))
		}
	}
}

// A move by request isn't undone by use; one for idleness is, as each suspend for that.
func TestUndoesAMove(t *testing.T) {
	policy, _ := session.PolicyFor("web", nil)
	input := schemas.Source{Kind: schemas.KindInput}
	for _, c := range []struct {
		op   schemas.Op
		want bool
	}{
		{schemas.Op{Move: &schemas.Move{}}, false},
		{schemas.Op{Move: &schemas.Move{}, Idle: true}, true},
		{schemas.Op{}, true},
	} {
		if got := session.Undoes(c.op, input, schemas.Activity{}, policy); got != c.want {
			t.Errorf("%+v: %v", c.op, got)
		}
	}
}

// A session goes back by one transition: its host, its op and why.
func TestMovedBack(t *testing.T) {
	r := schemas.SessionRecord{UID: "u", State: schemas.Resuming, Host: "b", Epoch: 4, Version: 9}
	why := &schemas.Failure{Op: schemas.OpMove, Text: "no room"}
	op := &schemas.Op{ID: "o", Kind: schemas.OpResume, Source: &schemas.Head{Name: "default/u/1-1"}}
	back, err := session.Apply(r, schemas.Transition{Type: schemas.TMovedBack, At: t0, Set: schemas.Set{Host: "a", Op: op, Failure: why}})
	if err != nil || back.State != schemas.Resuming || back.Host != "a" || back.Epoch != 5 || back.Failure != why {
		t.Fatalf("%+v, %v", back, err)
	}
	runs, err := session.Apply(back, schemas.Transition{Type: schemas.TResumed, At: t0})
	if err != nil || runs.Failure != why {
		t.Errorf("running again it says %+v, %v", runs.Failure, err)
	}
	asked, err := session.Apply(runs, schemas.Transition{Type: schemas.TSuspend, At: t0, Set: schemas.Set{Op: op}})
	if err != nil || asked.Failure != nil {
		t.Errorf("at its next op it says %+v, %v", asked.Failure, err)
	}
	r.State = schemas.Suspended
	if _, err := session.Apply(r, schemas.Transition{Type: schemas.TMovedBack, At: t0, Set: schemas.Set{Host: "a", Op: op, Failure: why}}); err == nil {
		t.Error("one that isn't resumed goes back")
	}
}
