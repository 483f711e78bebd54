package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// accept ends the time in which what took a session's place has to get well: it stays.
func (s *Server) accept(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	for {
		v, err := s.onTrial(ctx, n)
		if err != nil {
			return nil, err
		}
		t := schemas.Transition{Type: schemas.TProved, Reason: "accepted before it was known to be well", Op: v.Op.ID}
		v, err = s.ask(ctx, v, req, t)
		if !errors.Is(err, statekv.ErrConflict) {
			return schemas.ViewOf(v.SessionRecord), err
		}
	}
}

// reject ends that time the other way: what the session was comes back.
func (s *Server) reject(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.onTrial(ctx, n)
		if err != nil {
			return nil, err
		}
		if err := s.stranded(v); err != nil {
			return nil, err
		}
		op, err := s.newOp(ctx, schemas.OpResume)
		if err != nil {
			return nil, err
		}
		was := v.SessionRecord
		was.Head = v.Op.Fallback
		op.Source, op.Boot = v.Op.Fallback, session.BootOf(was)
		why := orDefault(req.Reason, "it was rejected")
		f := &schemas.Failure{Op: schemas.OpProve, Count: 1, At: time.Now().UTC(),
			Text: fmt.Sprintf("snapshot %s took its place and was rejected by %s: %s", snapshotID(*v.Head), orDefault(req.Actor, "client"), why)}
		v, err = s.ask(ctx, v, req, schemas.Transition{Type: schemas.TFellBack, Reason: why, Set: schemas.Set{Op: op, Failure: f}})
		if errors.Is(err, statekv.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err = await(ctx, ch, s.untilRunning(v))
		return schemas.ViewOf(v.SessionRecord), err
	}
}

// onTrial reads a session in whose place something runs that has yet to get well.
func (s *Server) onTrial(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := s.get(ctx, n)
	switch {
	case err != nil:
		return v, err
	case v.State == schemas.Resuming && v.Op != nil && v.Op.Fallback != nil:
		return v, schemas.StateError(schemas.ReasonBusy, "session %s is resuming", n).WithHint("try again when `diapause show %s` says that it runs", n)
	case v.State != schemas.Running || v.Op == nil || v.Op.Kind != schemas.OpProve || v.Op.Fallback == nil || v.Head == nil:
		return v, schemas.StateError(schemas.ReasonWrongState, "session %s is %s and no replacement is on trial", n, v.State)
	}
	return v, nil
}
