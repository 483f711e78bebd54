package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// ender answers the verbs that end a session.
type ender struct {
	sessions *sessions
	hosts    *placement
	board    *board
	host     schemas.HostID
}

func (s *ender) remove(ctx context.Context, req request) (any, error) {
	if req.Shred {
		if err := s.mayShred(ctx, req); err != nil {
			return nil, err
		}
	}
	return s.end(ctx, req, schemas.OpRemove, schemas.TRemove, "asked to remove it")
}

func (s *ender) kill(ctx context.Context, req request) (any, error) {
	return s.end(ctx, req, schemas.OpKill, schemas.TKill, "asked to kill it")
}

// end makes the transition that ends a session and waits until its host has
// carried it out.
func (s *ender) end(ctx context.Context, req request, kind string, t schemas.TransitionType, reason string) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.sessions.get(ctx, n)
		if err != nil {
			return nil, err
		}
		if v.Queued() {
			gone, err := s.dropQueued(ctx, v, req, reason)
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			return schemas.ViewOf(gone.SessionRecord), err
		}
		op, err := s.sessions.newOp(ctx, kind)
		if err != nil {
			return nil, err
		}
		op.Shred = req.Shred
		v, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: t, Reason: reason, Set: schemas.Set{Op: op, Host: s.hosts.remover(ctx, v, t)}})
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

// mayShred refuses while another session goes on from an image of this one's: it
// would be lost. A fork that comes in between is found by the host, which then
// waits for it.
func (s *ender) mayShred(ctx context.Context, req request) error {
	n, err := name(req.Name)
	if err != nil {
		return err
	}
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return err
	}
	for other := range s.board.all("") {
		if other.UID == v.UID || !goesOnFrom(other, v.SessionRecord) {
			continue
		}
		if template, ok := other.Name().Template(); ok {
			return schemas.StateError(schemas.ReasonInUse, "template %s is being made of session %s", template, n).WithHint("try again when it is made: `diapause template ls`")
		}
		how := fmt.Sprintf("`diapause checkpoint %s` gives it an image of its own", other.Name())
		if other.State != schemas.Running {
			how = fmt.Sprintf("`diapause ensure %s`, then `diapause checkpoint %s`, gives it an image of its own", other.Name(), other.Name())
		}
		return schemas.StateError(schemas.ReasonInUse, "session %s goes on from an image of session %s", other.Name(), n).WithHint("it would be lost with it: %s; or remove it first", how)
	}
	return nil
}

// goesOnFrom reports whether a record points into another session's lineage.
func goesOnFrom(r, origin schemas.SessionRecord) bool {
	within := string(origin.Tenant) + "/" + origin.Lineage + "/"
	return slices.ContainsFunc(r.Heads(), func(h schemas.Head) bool { return strings.HasPrefix(h.Name, within) })
}

// expire removes a session because of the retention policy, if its record still is
// as v says. Its host deletes the images.
func (s *ender) expire(ctx context.Context, v statekv.Versioned, reason string) error {
	op, err := s.sessions.newOp(ctx, schemas.OpRemove)
	if err != nil {
		return err
	}
	req := request{by: Caller{Identity: "janitor@" + string(s.host)}}
	_, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TRemove, Reason: reason, Set: schemas.Set{Op: op}})
	if err != nil {
		return err
	}
	e := schemas.Event{Type: "expired", Tenant: v.Tenant, Session: v.Session, UID: v.UID, Text: reason, Actor: req.by.Actor(), At: time.Now().UTC()}
	return s.sessions.publish.Event(ctx, e)
}
