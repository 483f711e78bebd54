package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// opDeadline is when the sweep looks after an op that nobody has finished.
const opDeadline = 10 * time.Minute

// carryOut makes the transition of a verdict and wakes the host. A conflict is
// no error: the new revision is decided on when it comes.
func (s *Scheduler) carryOut(ctx context.Context, rec statekv.Versioned, d session.Decision) {
	t := transition(rec.SessionRecord, d)
	t.Actor = s.Actor
	if err := s.Failpoints.At(ctx, failpoint.SchedulerDecided); err != nil {
		s.Log.Error("decision not recorded", "session", rec.Name().String(), "verdict", d.Verdict, "err", err)
		return
	}
	next, err := s.Records.Swap(ctx, rec, t)
	if err == nil {
		err = s.Failpoints.At(ctx, failpoint.SchedulerRecorded)
	}
	switch {
	case errors.Is(err, statekv.ErrConflict), ctx.Err() != nil:
		return
	case err != nil:
		s.Log.Error("decision not recorded", "session", rec.Name().String(), "verdict", d.Verdict, "err", err)
		return
	}
	s.Log.Info(string(d.Verdict), "session", rec.Name().String(), "reason", d.Reason)
	c := schemas.Command{Op: next.Op.ID, Epoch: next.Epoch, At: time.Now().UTC()}
	err = s.Bus.Command(ctx, next.Host, next.Name(), c)
	if err == nil {
		err = s.Failpoints.At(ctx, failpoint.SchedulerCommanded)
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("command not published; the host's own watch finds the record", "session", rec.Name().String(), "err", err)
	}
}

func transition(r schemas.SessionRecord, d session.Decision) schemas.Transition {
	op := &schemas.Op{ID: nuid.Next(), Deadline: time.Now().Add(opDeadline).UTC(), Seq: d.Evidence.Seq}
	t := schemas.Transition{Reason: d.Reason, Evidence: &d.Evidence, Op: op.ID, Set: schemas.Set{Op: op}}
	if d.Verdict == session.Suspend {
		t.Type = schemas.TSuspend
		op.Kind, op.Idle, op.Trigger = schemas.OpSuspend, true, "idle"
		return t
	}
	t.Type = schemas.TResume
	op.Kind, op.Source, op.Boot = schemas.OpResume, r.Head, session.BootOf(r)
	return t
}

// group runs a bounded number of functions beside each other.
type group struct {
	slots chan struct{}
	wg    sync.WaitGroup
}

func newGroup(n int) *group { return &group{slots: make(chan struct{}, n)} }

func (g *group) run(fn func()) {
	g.wg.Go(func() {
		g.slots <- struct{}{}
		defer func() { <-g.slots }()
		fn()
	})
}

func (g *group) wait() { g.wg.Wait() }
