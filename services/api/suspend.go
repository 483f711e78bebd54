package api

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// capturer answers the verbs that write an image of a session.
type capturer struct {
	sessions *sessions
	hosts    *placement
	board    *board
}

func (s *capturer) suspend(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	if req.Reset {
		v, err := s.reset(ctx, n, req)
		return schemas.ViewOf(v.SessionRecord), err
	}
	v, err := s.suspended(ctx, n, req, "manual")
	return schemas.ViewOf(v.SessionRecord), err
}

// reset closes the breaker of a session that runs.
func (s *capturer) reset(ctx context.Context, n schemas.Name, req request) (statekv.Versioned, error) {
	for {
		v, err := s.sessions.get(ctx, n)
		if err != nil || v.Failure == nil || v.Failure.Op != schemas.OpSuspend {
			return v, err // nothing counts against it
		}
		next, err := s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TBreakerReset, Reason: "asked to suspend it for idleness again"})
		if !errors.Is(err, statekv.ErrConflict) {
			return next, err
		}
	}
}

// suspended brings a session to suspended and waits until its processes are
// gone. Of one that is suspended it gives the record as it is.
func (s *capturer) suspended(ctx context.Context, n schemas.Name, req request, trigger string) (statekv.Versioned, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.sessions.get(ctx, n)
		if err != nil {
			return v, err
		}
		switch {
		case v.State == schemas.Suspended && (v.Op == nil || s.hosts.lost(v)):
			return v, nil
		case v.Op != nil && v.Op.Move != nil: // it runs elsewhere soon: look again then
		case v.State == schemas.Suspending, v.State == schemas.Suspended:
			joined := v
			v, err = awaitFrom(ctx, joined, ch, s.sessions.untilSuspended(joined))
			if v.State == schemas.Running && joined.Op != nil && joined.Op.Idle {
				continue // that was given up for activity, which is nothing against being asked for it
			}
			return v, err
		case v.State == schemas.Running && v.Op == nil:
			op, err := s.sessions.newOp(ctx, schemas.OpSuspend)
			if err != nil {
				return v, err
			}
			op.Trigger, op.Description, op.RunID = trigger, req.Description, req.RunID
			v, err = s.sessions.ask(ctx, v, req, schemas.Transition{
				Type: schemas.TSuspend, Reason: "asked to suspend",
				Set: schemas.Set{Op: op, Pause: &schemas.Pause{Reason: schemas.PauseManual, At: time.Now().UTC()}},
			})
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			if err != nil {
				return v, err
			}
			return awaitFrom(ctx, v, ch, s.sessions.untilSuspended(v))
		case v.State == schemas.Exited, v.State == schemas.Failed:
			return v, schemas.StateError(reasonIn(v.State), "session %s is %s: there is nothing to suspend", n, v.State)
		}
		// It starts, resumes, moves or takes a checkpoint: look again when that is over.
		if _, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version > v.Version), nil }); err != nil {
			return v, stillBusy(v, err)
		}
	}
}

func (s *capturer) checkpoint(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.checkpointed(ctx, n, req, "manual")
	return schemas.ViewOf(v.SessionRecord), err
}

func (s *capturer) checkpointed(ctx context.Context, n schemas.Name, req request, trigger string) (statekv.Versioned, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State != schemas.Running {
		return v, schemas.StateError(reasonIn(v.State), "checkpoint session %s: it is %s, not running", n, v.State)
	}
	if v.Op != nil {
		return v, schemas.StateError(schemas.ReasonBusy, "session %s: %s", n, v.Underway())
	}
	op, err := s.sessions.newOp(ctx, schemas.OpCheckpoint)
	if err != nil {
		return v, err
	}
	op.Trigger, op.Description, op.RunID = trigger, req.Description, req.RunID
	v, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TCheckpoint, Reason: "asked for a checkpoint", Set: schemas.Set{Op: op}})
	if errors.Is(err, statekv.ErrConflict) {
		return s.checkpointed(ctx, n, req, trigger)
	}
	if err != nil {
		return v, err
	}
	return await(ctx, ch, func(w statekv.Versioned) (outcome, error) {
		switch {
		case w.Version <= v.Version || w.Transition.Type == schemas.TClaimed:
			return pending, nil
		case w.Transition.Type == schemas.TCheckpointed && w.Transition.Op == op.ID:
			return done, nil
		case w.Transition.Type == schemas.TCheckpointFailed:
			return done, schemas.FailedError("", "checkpoint session %s, which runs on: %s", n, schemas.About(n, w.Transition.Reason))
		}
		return done, schemas.StateError(reasonAfter(w.State), "session %s is %s: %s", n, w.State, schemas.About(n, w.Transition.Reason))
	})
}

// captured gives the record of a session whose head is as it is now: a running
// one is checkpointed first.
func (s *capturer) captured(ctx context.Context, n schemas.Name, req request, trigger string) (statekv.Versioned, error) {
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State == schemas.Running {
		return s.checkpointed(ctx, n, req, trigger)
	}
	if v.State == schemas.Suspended && v.Head != nil {
		return v, nil
	}
	if v.Archived != nil && !v.Archived.Dropped.IsZero() {
		return v, memoryDropped(v)
	}
	what := "fork"
	if trigger == templateTrigger {
		what = "make a template of"
	}
	refused := schemas.StateError(schemas.ReasonWrongState, "%s session %s: it is %s, neither running nor suspended", what, n, v.State)
	if v.Head != nil {
		return v, refused.WithHint("--snapshot %s begins from its last snapshot; `diapause snapshots %s` lists all", snapshotID(*v.Head), n)
	}
	return v, refused
}
