package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Explain says what stands between a session and its suspend or resume, by the
// same function that decides. ok is false if the scheduler knows no such
// session.
func (s *Scheduler) Explain(ctx context.Context, n schemas.Name) (e schemas.Explanation, ok bool, err error) {
	err = s.ask(ctx, func(l *loop) {
		t, there := l.table.find(n)
		if !there || t.view.uid == "" {
			return
		}
		e, ok = l.explain(t, time.Now()), true
	})
	if err != nil || !ok {
		return e, ok, err
	}
	// Of the record the loop keeps no more than deciding needs.
	rec, err := s.Records.Get(ctx, n)
	if err != nil {
		return e, false, err
	}
	e.Last = schemas.ViewTransition(rec.SessionRecord)
	return e, true, nil
}

// Idle gives how long each running session has been idle.
func (s *Scheduler) Idle(ctx context.Context) (map[schemas.Name]time.Duration, error) {
	out := map[schemas.Name]time.Duration{}
	err := s.ask(ctx, func(l *loop) {
		now := time.Now()
		for _, t := range l.table.sessions {
			if t.view.state() == schemas.Running {
				v := l.table.view(t)
				out[t.name()] = now.Sub(v.IdleSince())
			}
		}
	})
	return out, err
}

func (l *loop) explain(t *tracked, now time.Time) schemas.Explanation {
	v := l.table.view(t)
	p := l.table.policy(&v)
	d := session.Decide(&v, p, now)
	e := schemas.Explanation{
		Heard: v.Seq(),
		Name:  t.name().String(), State: v.Record.State, GraceMS: p.Grace.Milliseconds(),
		Blockers: append([]schemas.WaitingFor{}, d.Blockers...), Next: d.Due,
	}
	if v.Record.State == schemas.Running {
		e.IdleSeconds = now.Sub(v.IdleSince()).Seconds()
		e.Score = v.Score(p.Score, now)
		last := v.Last()
		e.LastUse, e.LastUseSeq = last.What, last.Seq
	}
	switch {
	case d.Verdict == session.Suspend && !l.lag.inTime():
		e.Text = fmt.Sprintf("it is suspended once it is certain that it wasn't used: activity of the last %s hasn't been heard yet: %s", l.lag.behind().Round(time.Second/10), d.Reason)
	case d.Verdict == session.Suspend && t.waiting:
		e.Text = "it is suspended as soon as its host and the store have room for one more: " + d.Reason
	case d.Verdict == session.Suspend:
		e.Text = "it is being suspended: " + d.Reason
	case d.Verdict == session.Notify:
		e.Text = "it is said now that it is to be suspended: " + d.Reason
	case len(d.Blockers) > 0 && !d.Due.IsZero():
		e.Text = "it is suspended in " + d.Due.Sub(now).Round(100*time.Millisecond).String() + " unless something happens: " + d.Reason
	case len(d.Blockers) > 0:
		e.Text = "it is not suspended: " + d.Reason
	default:
		e.Text = d.Reason
	}
	if what, ok := l.waker.awaits(t); ok && d.Verdict == session.Wake {
		e.Blockers = append(e.Blockers, schemas.WaitingFor{Kind: schemas.WaitingQuota, Subject: string(t.tenant()), What: what})
		e.Text = "it is to be resumed, and waits: " + what + "; " + e.Text
	}
	if f := v.Record.Failure; f != nil {
		e.Text += "; last failure (" + f.Op + "): " + f.Text
	}
	return e
}
