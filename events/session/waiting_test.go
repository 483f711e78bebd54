package session_test

import (
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Each reason why a session isn't suspended has its kind, and says what it is about.
func TestWaitingKinds(t *testing.T) {
	long := time.Hour
	for kind, c := range map[schemas.WaitingKind]struct {
		subject string
		make    func(v *session.View, p *session.Policy)
	}{
		schemas.WaitingOperation: {schemas.OpCheckpoint, func(v *session.View, _ *session.Policy) { v.Record.Op = &schemas.Op{Kind: schemas.OpCheckpoint} }},
		schemas.WaitingNever:     {"", func(_ *session.View, p *session.Policy) { p.Never = true }},
		schemas.WaitingLease: {"busy.cpu", func(v *session.View, p *session.Policy) {
			v.Hear(session.Message{Source: schemas.Source{Kind: schemas.KindBusy, Key: "cpu"}, Seq: 1, At: t0}, *p)
		}},
		schemas.WaitingBreaker: {"", func(v *session.View, p *session.Policy) {
			v.Record.Failure = &schemas.Failure{Op: schemas.OpSuspend, Count: p.Breaker, At: t0}
		}},
		schemas.WaitingRetry: {"", func(v *session.View, _ *session.Policy) {
			v.Record.Failure = &schemas.Failure{Op: schemas.OpSuspend, Count: 1, At: t0}
		}},
		schemas.WaitingGrace: {"input", func(v *session.View, p *session.Policy) {
			v.Hear(session.Message{Source: schemas.Source{Kind: schemas.KindInput}, Seq: 1, At: t0.Add(time.Second)}, *p)
		}},
		schemas.WaitingLife:  {"", func(_ *session.View, p *session.Policy) { p.Never, p.Life = true, long }},
		schemas.WaitingAwake: {"", func(v *session.View, p *session.Policy) { v.Record.Boot, p.Awake = schemas.BootResume, long }},
		schemas.WaitingQuiet: {"", func(_ *session.View, p *session.Policy) {
			h, err := schemas.Hours{From: "00:00", To: "24:00"}.Span()
			if err != nil {
				t.Fatal(err)
			}
			p.Quiet = []schemas.Span{h}
		}},
		schemas.WaitingWarning:  {"", func(_ *session.View, p *session.Policy) { p.Grace, p.Warn = time.Second, long }},
		schemas.WaitingQuestion: {"", func(_ *session.View, p *session.Policy) { p.Grace, p.Ask = time.Second, long }},
	} {
		p, _ := session.PolicyFor("web", nil)
		v := session.View{HeardSince: t0}
		v.See(schemas.SessionRecord{UID: "u", State: schemas.Running, Class: "web", Created: t0}, t0)
		c.make(&v, &p)
		d := session.Decide(&v, p, t0.Add(2*time.Second))
		i := slices.IndexFunc(d.Blockers, func(w schemas.WaitingFor) bool { return w.Kind == kind })
		if i < 0 || d.Blockers[i].Subject != c.subject || d.Blockers[i].What == "" {
			t.Errorf("%s about %q isn't among %+v", kind, c.subject, d.Blockers)
		}
		for _, w := range d.Blockers {
			if w.Kind == "" {
				t.Errorf("%q has no kind", w.What)
			}
		}
	}
}
