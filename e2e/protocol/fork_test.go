package protocol_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A fork is to be kept as its origin is: what was said of that when it was run holds for the
// fork, and for a fork of the fork. What is the origin's alone stays with it.
func TestForkIsKeptAsItsOriginIs(t *testing.T) {
	h := start(t)
	req := runRequest("work", "count")
	req.Run.Class, req.Run.MadeBy, req.Run.Idle = "terminal", "agent", &schemas.Idle{Grace: 3_600_000}
	req.Run.OnLoss, req.Run.OnBreaker = schemas.LossResume, schemas.BreakerStop
	v := h.do("run", req)
	h.count(v.UID)
	h.do("fork", schemas.Request{Name: "work", To: "twin"})
	h.do("fork", schemas.Request{Name: "twin", To: "third"})
	was := h.get("work")
	for _, name := range []string{"twin", "third"} {
		r := h.get(name)
		if r.OnLoss != schemas.LossResume || r.OnBreaker != schemas.BreakerStop || r.Class != was.Class || r.MadeBy != was.MadeBy ||
			r.Driver != was.Driver || r.Program != was.Program || r.Spec != was.Spec || r.TTY != was.TTY || r.Idle == nil || *r.Idle != *was.Idle {
			t.Errorf("%s is kept as %+v, its origin as %+v", name, r, was)
		}
		if r.UID == was.UID || r.Lineage == was.Lineage || r.Triggered != 0 || r.Failure != nil {
			t.Errorf("%s has what is its origin's alone: %+v", name, r)
		}
	}
	h.audited()
}
