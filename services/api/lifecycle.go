package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

func (s *Server) newOp(ctx context.Context, kind string) (*schemas.Op, error) {
	seq, err := stream.LastActivity(ctx, s.JS, s.Names)
	if err != nil {
		return nil, err
	}
	return schemas.NewOp(kind, seq, time.Now()), nil
}

// ask makes a transition that a client asked for, and wakes the host.
func (s *Server) ask(ctx context.Context, prev statekv.Versioned, req schemas.Request, t schemas.Transition) (statekv.Versioned, error) {
	t.Actor = req.Actor
	if t.Actor == "" {
		t.Actor = "client"
	}
	if req.Reason != "" {
		t.Reason = req.Reason
	}
	if t.Set.Op != nil {
		t.Op = t.Set.Op.ID
		t.Evidence = &schemas.Evidence{Seq: t.Set.Op.Seq}
	}
	if err := s.Failpoints.At(ctx, failpoint.APIAsked); err != nil {
		return statekv.Versioned{}, err
	}
	claimed, err := s.claim(prev, t)
	if err != nil {
		return statekv.Versioned{}, err
	}
	next, err := s.Records.Swap(ctx, prev, t)
	s.board.settle(claimed, next, err)
	if err != nil {
		return next, err
	}
	if err := s.Failpoints.At(ctx, failpoint.APIRecorded); err != nil {
		return next, err
	}
	if next.Op != nil && next.Host != "" {
		if err := s.publish.Command(ctx, next.SessionRecord); err != nil {
			s.Log.Warn("command not published; the host's own watch finds the record", "session", next.Name().String(), "err", err)
		}
	}
	return next, s.Failpoints.At(ctx, failpoint.APICommanded)
}

func (s *Server) run(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	r := req.Run
	if r == nil || r.Program == "" {
		return nil, schemas.UsageError("run: no command given")
	}
	if r.Class == "" {
		r.Class = "web"
		if r.TTY {
			r.Class = "terminal"
		}
	}
	if _, ok := session.PolicyFor(r.Class, nil); !ok {
		return nil, schemas.UsageError("class %q: want one of %s", r.Class, strings.Join(session.Classes(), ", "))
	}
	if r.OnBreaker != "" && r.OnBreaker != schemas.BreakerKeep && r.OnBreaker != schemas.BreakerStop {
		return nil, schemas.UsageError("on suspend failure %q: want keep or stop", r.OnBreaker)
	}
	if r.OnLoss != "" && r.OnLoss != schemas.LossWait && r.OnLoss != schemas.LossResume {
		return nil, schemas.UsageError("on host loss %q: want wait or resume", r.OnLoss)
	}
	if r.MadeBy == "" {
		r.MadeBy = schemas.MadeByPerson
	}
	if r.MadeBy != schemas.MadeByPerson && r.MadeBy != schemas.MadeByAgent {
		return nil, schemas.UsageError("made by %q: want person or agent", r.MadeBy)
	}
	sealed, err := s.seal(ctx, n.Tenant, r.Spec)
	if err != nil {
		return nil, schemas.FailedError("", "seal the environment of session %s: %v", n, err)
	}
	fresh := schemas.NewSession{
		Class: r.Class, Driver: r.Driver, MadeBy: r.MadeBy, Program: r.Program, Spec: sealed, TTY: r.TTY, OnLoss: r.OnLoss, OnBreaker: r.OnBreaker,
	}
	op, err := s.newOp(ctx, schemas.OpStart)
	if err != nil {
		return nil, err
	}
	t := schemas.Transition{Type: schemas.TRun, Reason: "asked to run " + r.Program, Set: schemas.Set{Op: op, Idle: r.Idle}}
	out, err := s.create(ctx, n, req, fresh, t, nil)
	if err != nil {
		return nil, errors.Join(err, s.forgetUnborn(ctx, n, req))
	}
	return out, nil
}

// forgetUnborn removes a session whose command never ran, so that a mistyped one
// doesn't take its name. The log keeps why.
func (s *Server) forgetUnborn(ctx context.Context, n schemas.Name, req schemas.Request) error {
	v, err := s.Records.Get(ctx, n)
	if err != nil || v.State != schemas.Failed || v.Transition.Type != schemas.TStartFailed || v.Generation > 0 {
		return nil // it is another's, or there is something to keep
	}
	req.Reason = "its command never ran"
	_, err = s.end(ctx, req, schemas.OpRemove, schemas.TRemove, req.Reason)
	return err
}

// untilRunning waits for a session to run, or for the op that should have
// brought it there to fail.
func (s *Server) untilRunning(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
	return func(v statekv.Versioned) (outcome, error) {
		if v.Version <= asked.Version {
			return pending, nil
		}
		switch v.State {
		case schemas.Running:
			return when(!begins(v)), nil
		case schemas.Exited:
			if v.Boot == schemas.BootClean && v.UID == asked.UID && asked.State == schemas.Starting {
				return done, nil // it ran, and is over already
			}
			if v.Transition.Type == schemas.TResumeFailed && v.Failure != nil {
				return done, schemas.FailedError("", "session %s: %s", v.Name(), v.Failure.Text)
			}
			return done, schemas.StateError(schemas.ReasonExited, "session %s ended by itself with status %d", v.Name(), v.Exit.Code)
		case schemas.Failed, schemas.Suspended:
			if v.Failure != nil && v.Failure.Kind == schemas.FailureTaken {
				return done, schemas.StateError(schemas.ReasonTaken, "session %s: %s", v.Name(), v.Failure.Text)
			}
			if v.Failure != nil {
				return done, schemas.FailedError("", "session %s: %s", v.Name(), v.Failure.Text)
			}
			return done, schemas.StateError(reasonAfter(v.State), "session %s is %s again: %s", v.Name(), v.State, v.Transition.Reason)
		case schemas.Deleted:
			return done, schemas.StateError(schemas.ReasonDeleted, "session %s was deleted meanwhile", v.Name())
		}
		return pending, nil
	}
}

// begins reports whether a session is recorded to run, and its host hasn't heard yet whether
// it does.
func begins(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpBegin }

func (s *Server) suspend(ctx context.Context, req schemas.Request) (any, error) {
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
func (s *Server) reset(ctx context.Context, n schemas.Name, req schemas.Request) (statekv.Versioned, error) {
	for {
		v, err := s.get(ctx, n)
		if err != nil || v.Failure == nil || v.Failure.Op != schemas.OpSuspend {
			return v, err // nothing counts against it
		}
		next, err := s.ask(ctx, v, req, schemas.Transition{Type: schemas.TBreakerReset, Reason: "asked to suspend it for idleness again"})
		if !errors.Is(err, statekv.ErrConflict) {
			return next, err
		}
	}
}

// suspended brings a session to suspended and waits until its processes are
// gone. Of one that is suspended it gives the record as it is.
func (s *Server) suspended(ctx context.Context, n schemas.Name, req schemas.Request, trigger string) (statekv.Versioned, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.get(ctx, n)
		if err != nil {
			return v, err
		}
		switch {
		case v.State == schemas.Suspended && (v.Op == nil || s.lost(v)):
			return v, nil
		case v.State == schemas.Suspending, v.State == schemas.Suspended:
			joined := v
			v, err = awaitFrom(ctx, joined, ch, s.untilSuspended(joined))
			if v.State == schemas.Running && joined.Op != nil && joined.Op.Idle {
				continue // that was given up for activity, which is nothing against being asked for it
			}
			return v, err
		case v.State == schemas.Running && v.Op == nil:
			op, err := s.newOp(ctx, schemas.OpSuspend)
			if err != nil {
				return v, err
			}
			op.Trigger, op.Description, op.RunID = trigger, req.Description, req.RunID
			v, err = s.ask(ctx, v, req, schemas.Transition{Type: schemas.TSuspend, Reason: "asked to suspend", Set: schemas.Set{Op: op, Pause: &schemas.Pause{Reason: schemas.PauseManual, At: time.Now().UTC()}}})
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			if err != nil {
				return v, err
			}
			return awaitFrom(ctx, v, ch, s.untilSuspended(v))
		case v.State == schemas.Exited, v.State == schemas.Failed:
			return v, schemas.StateError(reasonIn(v.State), "session %s is %s: there is nothing to suspend", n, v.State)
		}
		// It starts, resumes or takes a checkpoint: look again when that is over.
		if _, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version > v.Version), nil }); err != nil {
			return v, notBegun(v, err)
		}
	}
}

func when(ok bool) outcome {
	if ok {
		return done
	}
	return pending
}

func (s *Server) untilSuspended(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
	return func(v statekv.Versioned) (outcome, error) {
		if v.Version < asked.Version {
			return pending, nil
		}
		switch v.State {
		case schemas.Suspending:
			return pending, nil
		case schemas.Suspended:
			// Whether its frozen processes are gone, a lost host can't say.
			return when(v.Op == nil || s.lost(v)), nil
		case schemas.Running:
			if v.Transition.Type == schemas.TSuspendFailed {
				return done, schemas.FailedError(schemas.ReasonRunsOn, "session %s runs on: %s", v.Name(), v.Transition.Reason)
			}
			return done, schemas.StateError(schemas.ReasonRunsOn, "session %s runs on: %s", v.Name(), v.Transition.Reason)
		}
		return done, schemas.StateError(reasonAfter(v.State), "session %s is %s: %s", v.Name(), v.State, v.Transition.Reason)
	}
}

func (s *Server) ensure(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.get(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := s.mayWake(v); err != nil {
		return nil, err
	}
	// Wanting it is activity: it undoes a suspend under way and begins a grace.
	a := schemas.Activity{Reason: "ensure", By: req.Actor}
	if _, err := s.publish.Activity(ctx, n, schemas.KindHTTP, "", a); err != nil {
		return nil, err
	}
	return s.awake(ctx, n, req, []schemas.State{schemas.Suspended})
}

func (s *Server) resume(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	if req.Clean {
		return s.restart(ctx, n, req)
	}
	return s.awake(ctx, n, req, []schemas.State{schemas.Suspended, schemas.Failed})
}

// goesOn gives what a session that is being resumed goes on from if that can't be done: the
// same elsewhere, or what it was, in whose place something else was to come.
func goesOn(r schemas.SessionRecord) (from schemas.Head, boot schemas.Boot) {
	if r.Op.Fallback == nil {
		return *r.Op.Source, r.Op.Boot
	}
	r.Head = r.Op.Fallback
	return *r.Head, session.BootOf(r)
}

// awake brings a session that is in one of the given states, or on its way, to
// running, and waits for it.
func (s *Server) awake(ctx context.Context, n schemas.Name, req schemas.Request, from []schemas.State) (any, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.get(ctx, n)
		if err != nil {
			return nil, err
		}
		switch {
		case v.State == schemas.Running:
			if begins(v) && !s.lost(v) {
				got, err := await(ctx, ch, s.untilRunning(v))
				return schemas.ViewOf(got.SessionRecord), err
			}
			if err := s.stranded(v); err != nil || !s.lost(v) {
				return schemas.ViewOf(v.SessionRecord), err
			}
		case v.State == schemas.Suspended && v.Op != nil && !s.lost(v): // activity may still revive it, a resume takes longer
		case v.State == schemas.Starting, v.State == schemas.Resuming:
			got, err := await(ctx, ch, s.untilRunning(v))
			if v.Op != nil && v.Op.Source != nil {
				from, boot := goesOn(v.SessionRecord)
				got, err = s.elsewhere(ctx, got, req, from, boot, ch, err)
			}
			return schemas.ViewOf(got.SessionRecord), err
		case slices.Contains(from, v.State):
			if v.Head == nil {
				return nil, schemas.StateError(schemas.ReasonNoSnapshot, "session %s is %s and has no snapshot", n, v.State).WithHint("%s", startAgain(n))
			}
			got, err := s.askResume(ctx, v, req, *v.Head, session.BootOf(v.SessionRecord), ch)
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			return schemas.ViewOf(got.SessionRecord), err
		case v.State == schemas.Suspending:
			if err := s.stranded(v); err != nil {
				return nil, err
			}
		case v.State == schemas.Exited:
			return nil, schemas.StateError(schemas.ReasonExited, "session %s ended by itself with status %d", n, v.Exit.Code).WithHint("%s", startAgain(n))
		default:
			return nil, schemas.StateError(reasonIn(v.State), "session %s is %s: %s", n, v.State, reasonOf(v)).WithHint("%s", wayOn(v))
		}
		lost := s.lost(v)
		if _, err := awaitFrom(ctx, v, ch, func(w statekv.Versioned) (outcome, error) {
			return when(w.Version > v.Version || s.lost(w) != lost), nil
		}); err != nil {
			return nil, err
		}
	}
}

func reasonOf(v statekv.Versioned) string {
	if v.Failure != nil {
		return v.Failure.Text
	}
	return v.Transition.Reason
}

// restart starts a session's command anew; what it had in memory stays in its
// snapshots.
func (s *Server) restart(ctx context.Context, n schemas.Name, req schemas.Request) (any, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.get(ctx, n)
	if err == nil && v.State == schemas.Suspended && v.Op != nil {
		if _, err = await(ctx, ch, s.untilSuspended(v)); err == nil {
			v, err = s.get(ctx, n)
		}
	}
	if err != nil {
		return nil, err
	}
	if !session.Can(v.State, schemas.TRestart) || v.Op != nil {
		return nil, schemas.StateError(schemas.ReasonWrongState, "session %s is %s", n, v.State).WithHint("suspend it before you start it again")
	}
	op, err := s.newOp(ctx, schemas.OpStart)
	if err != nil {
		return nil, err
	}
	op.Boot = schemas.BootClean
	host, err := s.home(ctx, v, nil, nil)
	if err != nil {
		return nil, err
	}
	v, err = s.ask(ctx, v, req, schemas.Transition{Type: schemas.TRestart, Reason: "asked to start anew", Set: schemas.Set{Op: op, Host: host}})
	if err != nil {
		return nil, err
	}
	v, err = await(ctx, ch, s.untilRunning(v))
	return schemas.ViewOf(v.SessionRecord), err
}

func (s *Server) checkpoint(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.checkpointed(ctx, n, req, "manual")
	return schemas.ViewOf(v.SessionRecord), err
}

func (s *Server) checkpointed(ctx context.Context, n schemas.Name, req schemas.Request, trigger string) (statekv.Versioned, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State != schemas.Running {
		return v, schemas.StateError(reasonIn(v.State), "checkpoint session %s: it is %s, not running", n, v.State)
	}
	if v.Op != nil {
		return v, schemas.StateError(schemas.ReasonBusy, "session %s: %s", n, v.Underway())
	}
	op, err := s.newOp(ctx, schemas.OpCheckpoint)
	if err != nil {
		return v, err
	}
	op.Trigger, op.Description, op.RunID = trigger, req.Description, req.RunID
	v, err = s.ask(ctx, v, req, schemas.Transition{Type: schemas.TCheckpoint, Reason: "asked for a checkpoint", Set: schemas.Set{Op: op}})
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
			return done, schemas.FailedError("", "checkpoint session %s, which runs on: %s", n, w.Transition.Reason)
		}
		return done, schemas.StateError(reasonAfter(w.State), "session %s is %s: %s", n, w.State, w.Transition.Reason)
	})
}

func (s *Server) remove(ctx context.Context, req schemas.Request) (any, error) {
	if req.Shred {
		if err := s.mayShred(ctx, req); err != nil {
			return nil, err
		}
	}
	return s.end(ctx, req, schemas.OpRemove, schemas.TRemove, "asked to remove it")
}

func (s *Server) kill(ctx context.Context, req schemas.Request) (any, error) {
	return s.end(ctx, req, schemas.OpKill, schemas.TKill, "asked to kill it")
}

// end makes the transition that ends a session and waits until its host has
// carried it out.
func (s *Server) end(ctx context.Context, req schemas.Request, kind string, t schemas.TransitionType, reason string) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.get(ctx, n)
		if err != nil {
			return nil, err
		}
		op, err := s.newOp(ctx, kind)
		if err != nil {
			return nil, err
		}
		op.Shred = req.Shred
		v, err = s.ask(ctx, v, req, schemas.Transition{Type: t, Reason: reason, Set: schemas.Set{Op: op, Host: s.remover(ctx, v, t)}})
		if errors.Is(err, statekv.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) {
			return when(w.Version > v.Version && (w.Op == nil || w.Transition.Type == schemas.TDeferred)), nil
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, timeout(fmt.Sprintf("session %s is %s, its host hasn't finished with it yet", n, v.State))
		}
		return schemas.ViewOf(w.SessionRecord), err
	}
}
