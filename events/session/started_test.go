package session

import (
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// A session that is recorded to run, and that its host takes long to begin, has its grace
// from when its command runs.
func TestGraceBeginsWhenTheHostHasStartedIt(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	p, _ := PolicyFor("web", &schemas.Idle{Grace: 10_000})
	r := schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "web", Class: "web", State: schemas.Starting, Op: &schemas.Op{Kind: schemas.OpStart}}
	kept := View{HeardSince: base}
	see := func(s int) View {
		kept.See(r, at(s))
		return kept
	}
	see(0)
	r.State, r.Op = schemas.Running, &schemas.Op{Kind: schemas.OpBegin}
	v := see(1)
	if d := Decide(&v, p, at(30)); d.Verdict != Leave {
		t.Errorf("its host hasn't started it, and the verdict is %s", d.Verdict)
	}
	r.Op = nil
	v = see(30)
	if d := Decide(&v, p, at(39)); d.Verdict != Leave || !d.Next.Equal(at(40)) {
		t.Errorf("started 9 s ago: %s until %v: %s", d.Verdict, d.Next.Sub(base), d.Reason)
	}
	r.Op = &schemas.Op{Kind: schemas.OpCheckpoint}
	see(31)
	r.Op = nil
	v = see(35) // a checkpoint begins no grace
	if d := Decide(&v, p, at(40)); d.Verdict != Suspend {
		t.Errorf("10 s after it was started: %s: %s", d.Verdict, d.Reason)
	}
}
