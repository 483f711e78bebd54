package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/triggers"
)

// triggered makes a checkpoint for a trigger of an agent's, when nothing else is being
// done to the session, and waits for it. What the trigger was for may be over by then: a
// session that is suspended has a snapshot anyway.
func (s *capturer) triggered(ctx context.Context, a triggers.Ask) (triggers.Outcome, error) {
	ch, stop := s.board.follow(a.Name)
	defer stop()
	for {
		v, err := s.sessions.get(ctx, a.Name)
		switch {
		case err != nil:
			return triggers.Outcome{}, err
		case v.Triggered >= a.Seq, v.Born >= a.Seq:
			return triggers.Outcome{Word: triggers.Taken}, nil
		case v.State == schemas.Running && v.Op == nil:
			next, err := s.askTriggered(ctx, v, a)
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			if err != nil {
				return triggers.Outcome{}, err
			}
			return s.captureOf(ctx, next, ch)
		case v.Op == nil || v.State == schemas.Suspended:
			return triggers.Outcome{Word: triggers.Dropped, Why: fmt.Sprintf("session %s is %s", a.Name, v.State)}, nil
		}
		// It starts, resumes, is being suspended or captured: look again when that is over.
		if _, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version > v.Version), nil }); err != nil {
			return triggers.Outcome{}, err
		}
	}
}

// renewed makes a checkpoint of a session whose last snapshot is too old, and waits for it, unless the
// session has another one by now, or isn't to be captured.
func (s *capturer) renewed(ctx context.Context, r schemas.SessionRecord, reason string) (triggers.Outcome, error) {
	ch, stop := s.board.follow(r.Name())
	defer stop()
	v, err := s.sessions.get(ctx, r.Name())
	if err != nil {
		return triggers.Outcome{}, err
	}
	if v.SessionRecord.Version != r.Version || v.State != schemas.Running || v.Op != nil {
		return triggers.Outcome{Word: triggers.Dropped}, nil
	}
	op, err := s.sessions.newOp(ctx, schemas.OpCheckpoint)
	if err != nil {
		return triggers.Outcome{}, err
	}
	op.Trigger = triggers.ByInterval
	next, err := s.sessions.ask(ctx, v, request{by: Caller{Identity: "policy"}}, schemas.Transition{Type: schemas.TCheckpoint, Reason: reason, Set: schemas.Set{Op: op}})
	if errors.Is(err, statekv.ErrConflict) {
		return triggers.Outcome{Word: triggers.Dropped}, nil
	}
	if err != nil {
		return triggers.Outcome{}, err
	}
	return s.captureOf(ctx, next, ch)
}

func (s *capturer) askTriggered(ctx context.Context, v statekv.Versioned, a triggers.Ask) (statekv.Versioned, error) {
	op, err := s.sessions.newOp(ctx, schemas.OpCheckpoint)
	if err != nil {
		return v, err
	}
	op.Trigger, op.TriggerSeq, op.RunID, op.Description = string(a.Trigger), a.Seq, a.RunID, a.Description()
	t := schemas.Transition{Type: schemas.TCheckpoint, Reason: a.Reason(), Set: schemas.Set{Op: op}}
	return s.sessions.ask(ctx, v, request{by: Caller{Identity: a.Actor()}}, t)
}

// captureOf waits for the checkpoint that was asked for.
func (s *capturer) captureOf(ctx context.Context, asked statekv.Versioned, ch <-chan statekv.Versioned) (triggers.Outcome, error) {
	var out triggers.Outcome
	_, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) {
		t := w.Transition
		switch {
		case w.Version <= asked.Version, w.Op != nil && w.Op.ID == asked.Op.ID:
			return pending, nil
		case t.Type == schemas.TCheckpointed && t.Op == asked.Op.ID:
			out = triggers.Outcome{Word: triggers.Done, Frozen: frozenFor(t)}
		default:
			out = triggers.Outcome{Word: triggers.Failed, Why: t.Reason, Frozen: t.At.Sub(asked.Transition.At)}
		}
		return done, nil
	})
	return out, err
}

// frozenFor says how long a capture had the session stand still.
func frozenFor(t schemas.Transition) time.Duration {
	for _, s := range t.Stages {
		if s.Name == "frozen" {
			return time.Duration(s.MS) * time.Millisecond
		}
	}
	return 0
}
