package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Use says how a running session is used, as far as that is known here.
type Use struct {
	Rev   statekv.Revision // of the record that this was heard for
	Seq   uint64           // the last activity that was heard for it
	What  string           // it is used for; "" if it isn't in use
	Until time.Time        // when that ends, unless more is heard
	Never bool             // it is never suspended for idleness
}

// InUse says how the sessions that run are used. Those are left out of which that isn't known:
// their record hasn't been read here, or activity is heard late.
func (s *Scheduler) InUse(ctx context.Context, names []schemas.Name) (out map[schemas.Name]Use, err error) {
	err = s.ask(ctx, func(l *loop) { out = l.inUse(names, time.Now()) })
	return out, err
}

// errLate: activity is heard late, so it isn't known what was said of a session.
var errLate = errors.New("activity is heard late")

// Held says until when a session is held, in whichever state it is; the zero time if it isn't.
func (s *Scheduler) Held(ctx context.Context, n schemas.Name) (until time.Time, err error) {
	late := false
	err = s.ask(ctx, func(l *loop) {
		t, ok := l.table.find(n)
		if late = !ok || t.view.uid == "" || !l.lag.hearing || !l.lag.inTime(); late {
			return
		}
		v := l.table.view(t)
		until = v.Held(l.table.policy(&v), time.Now())
	})
	if err == nil && late {
		err = errLate
	}
	return until, err
}

func (l *loop) inUse(names []schemas.Name, now time.Time) map[schemas.Name]Use {
	out := map[schemas.Name]Use{}
	if !l.lag.hearing || !l.lag.inTime() {
		return out
	}
	for _, n := range names {
		t, ok := l.table.find(n)
		if !ok || t.view.uid == "" || t.view.state() != schemas.Running || t.acting {
			continue
		}
		v := l.table.view(t)
		p := l.table.policy(&v)
		u := Use{Rev: t.rev, Seq: max(v.Seq(), v.Record.Born), Never: p.Never}
		u.What, u.Until = v.InUse(p, now)
		out[n] = u
	}
	return out
}
