package scheduler

import (
	"testing"
	"testing/synctest"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A session is known from its record on until it is gone for good.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Bus: talk{}, Roster: true})
		n := schemas.Name{Tenant: "acme", Session: "work"}
		other := schemas.Name{Tenant: "acme", Session: "other"}
		read := func(state schemas.State, op *schemas.Op) {
			s.found(t.Context(), statekv.Glance{Record: schemas.SessionRecord{UID: "u", Tenant: n.Tenant, Session: n.Session, State: state, Op: op}})
		}
		if !s.Known(n) {
			t.Error("before all records were read it isn't told that there is none")
		}
		close(s.known)
		for _, step := range []struct {
			state schemas.State
			op    *schemas.Op
			want  bool
		}{
			{schemas.Starting, nil, true}, {schemas.Suspended, nil, true}, {schemas.Deleted, &schemas.Op{Kind: schemas.OpRemove}, true},
			{schemas.Deleted, nil, false}, {schemas.Running, nil, true},
		} {
			if read(step.state, step.op); s.Known(n) != step.want || s.Known(other) {
				t.Errorf("%s, %v: known %v, another %v; want %v", step.state, step.op, s.Known(n), s.Known(other), step.want)
			}
		}
		if all := New(Options{Bus: talk{}}); !all.Known(n) {
			t.Error("without a roster none is known to be missing")
		}
	})
}
