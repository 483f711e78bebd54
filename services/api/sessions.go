package api

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nats.go/jetstream"
)

// sessions changes the records of sessions by compare-and-swap, and judges what comes of it.
type sessions struct {
	records    *statekv.Store
	publish    stream.Publisher
	js         jetstream.JetStream
	names      stream.Names
	board      *board
	hosts      *placement
	quotas     *quotas
	failpoints *failpoint.Set
	log        *slog.Logger
	// grew is told when a tenant has got one more session that isn't archived.
	grew func(context.Context, schemas.Tenant)
}

func (s *sessions) newOp(ctx context.Context, kind string) (*schemas.Op, error) {
	seq, err := stream.LastActivity(ctx, s.js, s.names)
	if err != nil {
		return nil, err
	}
	return schemas.NewOp(kind, seq, time.Now()), nil
}

// ask makes a transition that a client asked for, and wakes the host.
func (s *sessions) ask(ctx context.Context, prev statekv.Versioned, req request, t schemas.Transition) (statekv.Versioned, error) {
	t.Actor, t.Note = req.by.Actor(), req.by.Note
	if req.Reason != "" {
		t.Reason = req.Reason
	}
	if t.Set.Op != nil {
		t.Op = t.Set.Op.ID
		t.Evidence = &schemas.Evidence{Seq: t.Set.Op.Seq}
		t.Set.Op.Trace = req.by.trace()
	}
	if err := s.failpoints.At(ctx, failpoint.APIAsked); err != nil {
		return statekv.Versioned{}, err
	}
	claimed, err := s.quotas.claim(prev, t)
	if err != nil {
		return statekv.Versioned{}, err
	}
	next, err := s.records.Swap(ctx, prev, t)
	s.board.settle(claimed, next, err)
	if err != nil {
		return next, err
	}
	if err := s.failpoints.At(ctx, failpoint.APIRecorded); err != nil {
		return next, err
	}
	if claimed != nil && claimed.sessions > 0 && s.grew != nil {
		s.grew(ctx, next.Tenant)
	}
	if next.Op != nil && next.Host != "" {
		if err := s.publish.Command(ctx, next.SessionRecord); err != nil {
			s.log.Warn("command not published; the host's own watch finds the record", next.Logged("err", err)...)
		}
	}
	return next, s.failpoints.At(ctx, failpoint.APICommanded)
}

// untilRunning waits for a session to run, or for the op that should have
// brought it there to fail.
func (s *sessions) untilRunning(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
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
				return done, unresumed(v)
			}
			return done, schemas.StateError(schemas.ReasonExited, "session %s ended by itself with status %d", v.Name(), v.Exit.Code)
		case schemas.Failed, schemas.Suspended:
			if v.Failure != nil && v.Failure.Kind == schemas.FailureTaken {
				return done, schemas.StateError(schemas.ReasonTaken, "%s", v.Failure.Of(v.Name())).WithHint("%s", v.Failure.Hint)
			}
			if v.Failure != nil && v.Failure.Op == schemas.OpResume {
				return done, unresumed(v)
			}
			if v.Failure != nil {
				return done, schemas.FailedError("", "%s", v.Failure.Of(v.Name())).WithHint("%s", v.Failure.Hint)
			}
			return done, schemas.StateError(reasonAfter(v.State), "session %s is %s again: %s", v.Name(), v.State, schemas.About(v.Name(), v.Transition.Reason))
		case schemas.Deleted:
			return done, schemas.StateError(schemas.ReasonDeleted, "session %s was deleted meanwhile", v.Name())
		}
		return pending, nil
	}
}

// begins reports whether a session is recorded to run, and its host hasn't heard yet whether
// it does.
func begins(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpBegin }

func when(ok bool) outcome {
	if ok {
		return done
	}
	return pending
}

func (s *sessions) untilSuspended(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
	return func(v statekv.Versioned) (outcome, error) {
		if v.Version < asked.Version {
			return pending, nil
		}
		switch v.State {
		case schemas.Suspending:
			return pending, nil
		case schemas.Suspended:
			// Whether its frozen processes are gone, a lost host can't say.
			return when(v.Op == nil || s.hosts.lost(v)), nil
		case schemas.Running:
			if v.Transition.Type == schemas.TSuspendFailed {
				return done, schemas.FailedError(schemas.ReasonRunsOn, "session %s runs on: %s", v.Name(), schemas.About(v.Name(), v.Transition.Reason))
			}
			return done, schemas.StateError(schemas.ReasonRunsOn, "session %s runs on: %s", v.Name(), schemas.About(v.Name(), v.Transition.Reason))
		}
		return done, schemas.StateError(reasonAfter(v.State), "session %s is %s: %s", v.Name(), v.State, schemas.About(v.Name(), v.Transition.Reason))
	}
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// name reads the session that a request is about. A template is none.
func name(s string) (schemas.Name, error) {
	n, err := schemas.ParseName(s)
	if err != nil {
		return n, schemas.UsageError("%v", err)
	}
	if _, template := n.Template(); template {
		return n, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no such session: " + n.String()}
	}
	return n, nil
}

// newName reads the name of a session that a request makes.
func newName(s string) (schemas.Name, error) {
	n, err := schemas.ParseName(s)
	if _, template := n.Template(); err == nil && template {
		err = n.ValidateNew()
	}
	if err != nil {
		return n, schemas.UsageError("%v", err)
	}
	return n, nil
}

// named reads the session that a request names.
func (s *sessions) named(ctx context.Context, req request) (statekv.Versioned, error) {
	n, err := name(req.Name)
	if err != nil {
		return statekv.Versioned{}, err
	}
	return s.get(ctx, n)
}

// get reads a session that isn't deleted.
func (s *sessions) get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := s.records.Get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State == schemas.Deleted {
		return v, &schemas.APIError{Code: schemas.CodeNoSession,
			Text: fmt.Sprintf("no such session: %s was deleted at %s", n, v.Since.Format(time.RFC3339))}
	}
	return v, nil
}

// event publishes an event that nothing depends on.
func (s *sessions) event(ctx context.Context, e schemas.Event) {
	if err := s.publish.Event(ctx, e); err != nil {
		s.log.Warn("event not published", "type", e.Type, "err", err)
	}
}
