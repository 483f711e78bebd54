package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// act decides about sessions that are due, atOnce of them at most.
func (l *loop) act(ctx context.Context) {
	now := l.now()
	for n := 0; n < atOnce; n++ {
		t := l.queue.due(now)
		if t == nil && len(l.fresh) > 0 {
			t = l.fresh[len(l.fresh)-1]
			l.fresh = l.fresh[:len(l.fresh)-1]
			t.fresh = false
		}
		if t == nil {
			break
		}
		l.decide(ctx, t)
	}
	if len(l.fresh) == 0 {
		l.fresh = nil // after a start it was large
	}
	l.unblock()
	if l.abreast() {
		l.admit(ctx)
	} else {
		l.late()
	}
}

// decide does what is to be done about one session now.
func (l *loop) decide(ctx context.Context, t *tracked) {
	if t.acting || t.waiting || t.view.uid == "" {
		return // done comes back to it, or admit, or see
	}
	if t.view.rests() {
		return // as Decide would say, of nine in ten at a start
	}
	v := l.view(t)
	p := l.policy(&v)
	now := time.Now()
	v.Forget(p, now)
	t.view.packHeard(&v, l.base)
	d := session.Decide(&v, p, now)
	switch d.Verdict {
	case session.Leave:
		if !d.Next.IsZero() {
			l.queue.put(t, d.Next.Sub(l.base))
		}
	case session.Suspend:
		l.overdue(t, &v, p)
	case session.Notify:
		l.notify(ctx, t, &v, d)
	default:
		l.wake(ctx, t, d)
	}
}

// wake carries out what is no suspend. Of very many at once some wait, and are decided
// about again when their turn comes.
func (l *loop) wake(ctx context.Context, t *tracked, d session.Decision) {
	if !l.mayRun(t) {
		return
	}
	if l.waking >= actorsAtOnce {
		t.fresh = true
		l.backlog = append(l.backlog, t)
		return
	}
	l.begin(ctx, t, d)
}

// begin wakes a session.
func (l *loop) begin(ctx context.Context, t *tracked, d session.Decision) {
	l.waking++
	l.await(t)
	l.carryOut(ctx, t, d)
}

func (l *loop) carryOut(ctx context.Context, t *tracked, d session.Decision) {
	t.acting = true
	n, rev := t.name(), t.rev
	l.acts.run(d.Verdict, func() {
		done := l.s.carryOut(ctx, n, rev, d)
		send(ctx, l.acted, acted{t, rev, d.Verdict, done})
	})
}

// carryOut makes the transition of a verdict and wakes the host. It reads the record
// from the leader: the loop keeps only what deciding needs of it. A revision other than
// the one that was decided on, and a conflict, are no error: the new one is decided on
// when it comes. It reports whether the transition was made.
func (s *Scheduler) carryOut(ctx context.Context, n schemas.Name, rev statekv.Revision, d session.Decision) bool {
	next, err := s.record(ctx, n, rev, d)
	switch {
	case errors.Is(err, statekv.ErrConflict), ctx.Err() != nil:
		return false
	case err != nil:
		s.Log.Error("decision not recorded", "session", n.String(), "verdict", d.Verdict, "err", err)
		return false
	}
	s.Log.Info(string(d.Verdict), "session", n.String(), "reason", d.Reason)
	s.command(ctx, next)
	return true
}

func (s *Scheduler) record(ctx context.Context, n schemas.Name, rev statekv.Revision, d session.Decision) (next statekv.Versioned, err error) {
	if err := s.Failpoints.At(ctx, failpoint.SchedulerDecided); err != nil {
		return next, err
	}
	rec, err := s.Records.Get(ctx, n)
	if err != nil {
		return next, err
	}
	if rec.Rev != rev {
		return next, statekv.ErrConflict
	}
	t := transition(rec.SessionRecord, d)
	t.Actor = s.Actor
	if next, err = s.Records.Swap(ctx, rec, t); err != nil {
		return next, err
	}
	return next, s.Failpoints.At(ctx, failpoint.SchedulerRecorded)
}

// command wakes the host of a session.
func (s *Scheduler) command(ctx context.Context, next statekv.Versioned) {
	err := s.Bus.Command(ctx, next.SessionRecord)
	if err == nil {
		err = s.Failpoints.At(ctx, failpoint.SchedulerCommanded)
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("command not published; the host's own watch finds the record", "session", next.Name().String(), "err", err)
	}
}

// triggers are what the ops and images of suspends name in place of a reason for a pause.
var triggers = map[schemas.PauseReason]string{
	schemas.PauseInactivity: "idle", schemas.PauseExpired: "expired", schemas.PausePressure: "pressure", schemas.PauseQuota: "pressure",
}

func transition(r schemas.SessionRecord, d session.Decision) schemas.Transition {
	now := time.Now()
	op := schemas.NewOp(schemas.OpResume, d.Evidence.Seq, now)
	t := schemas.Transition{Reason: d.Reason, Evidence: &d.Evidence, Op: op.ID, Set: schemas.Set{Op: op}}
	if d.Verdict == session.Suspend {
		t.Type = schemas.TSuspend
		op.Kind, op.Idle, op.Trigger = schemas.OpSuspend, true, triggers[d.Pause]
		t.Set.Pause = &schemas.Pause{Reason: d.Pause, At: now.UTC()}
		return t
	}
	t.Type = schemas.TResume
	op.Source, op.Boot = r.Head, session.BootOf(r)
	return t
}

// actorsAtOnce bounds the swaps of one kind under way at one time: a wake never waits
// for suspends.
const actorsAtOnce = 16

// acts runs what was decided.
type acts struct {
	suspends chan struct{} // a token for each under way
	wg       sync.WaitGroup
}

func newActs() *acts { return &acts{suspends: make(chan struct{}, actorsAtOnce)} }

func (a *acts) run(v session.Verdict, fn func()) {
	a.wg.Go(func() {
		if v == session.Suspend {
			a.suspends <- struct{}{}
			defer func() { <-a.suspends }()
		}
		fn()
	})
}

func (a *acts) wait() { a.wg.Wait() }
