package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// exposer says who may reach the ports of sessions.
type exposer struct{ sessions *sessions }

// expose changes who may reach a port. It is no use of the session.
func (e *exposer) expose(ctx context.Context, req request) (any, error) {
	if req.Expose == nil {
		return nil, schemas.UsageError("the request names no port")
	}
	if err := req.Expose.Validate(); err != nil {
		return nil, schemas.UsageError("expose: %v", err)
	}
	for {
		v, err := e.sessions.named(ctx, req)
		if err != nil {
			return nil, err
		}
		t, err := decideExpose(req.by, v.SessionRecord, *req.Expose)
		if err != nil || t.Type == "" {
			return schemas.ViewOf(v.SessionRecord), err
		}
		next, err := e.sessions.ask(ctx, v, req, t)
		if errors.Is(err, statekv.ErrConflict) {
			continue // decided again, of what it is now
		}
		return schemas.ViewOf(next.SessionRecord), err
	}
}

// decideExpose gives the transition that changes who may reach a port; its type is "" if nothing changes.
func decideExpose(c Caller, r schemas.SessionRecord, want schemas.ExposeRequest) (t schemas.Transition, err error) {
	now := schemas.AccessOf(r.Exposed, want.Port)
	switch {
	case now == want.Access:
		return t, nil
	case c.confined() && ofHosts(r) && want.Access != schemas.AccessPrivate:
		return t, schemas.FailedError(schemas.ReasonDenied, "session %s may share its host's network", r.Name()).
			WithHint("only a token with the role operator exposes its ports")
	case !session.Can(r.State, schemas.TExposed):
		return t, schemas.StateError(schemas.Reason(r.State), "session %s is %s", r.Name(), r.State)
	}
	all := schemas.Expose(r.Exposed, want)
	if len(all) > schemas.MaxExposed {
		return t, schemas.UsageError("expose session %s: %d ports are exposed already", r.Name(), schemas.MaxExposed).WithHint("make one private first")
	}
	return schemas.Transition{
		Type: schemas.TExposed, Reason: fmt.Sprintf("port %d is %s, and was %s", want.Port, want.Access, now), Set: schemas.Set{Exposed: all},
	}, nil
}

// ofHosts reports whether a session's ports may be those of its host, or of others: what containers are connected
// to only their engine knows.
func ofHosts(r schemas.SessionRecord) bool {
	private := r.Network == schemas.NetworkPrivate || r.Network == schemas.NetworkNone
	return r.Driver != treeDriver || !private
}

// reach says whether the caller may reach a port. It is no use of the session, and looks at no process.
func (e *exposer) reach(ctx context.Context, req request) (any, error) {
	if req.Reach == nil || req.Reach.Port == 0 {
		return nil, schemas.UsageError("the request names no port")
	}
	v, err := e.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := mayReach(req.by, v.SessionRecord, *req.Reach); err != nil {
		return nil, err
	}
	return schemas.Reach{Actor: req.by.Actor(), Port: req.Reach.Port, Access: schemas.AccessOf(v.Exposed, req.Reach.Port)}, nil
}

// mayReach decides whether a caller may reach a port of a session that is within what the caller is confined to.
func mayReach(c Caller, r schemas.SessionRecord, want schemas.ReachRequest) error {
	access := schemas.AccessOf(r.Exposed, want.Port)
	ofPort := c.Role == RolePort
	switch {
	case ofPort != want.Page:
		return errNoToken // a cookie is no token, and no token is one
	case ofPort && c.Token.Port != want.Port:
		return errNoToken
	case ofPort && access == schemas.AccessToken:
		return errTokenAlone
	}
	if c.confined() && access == schemas.AccessPrivate && ofHosts(r) {
		return schemas.FailedError(schemas.ReasonDenied, "session %s may share its host's network", r.Name()).
			WithHint("an operator reaches its ports, and lets others with `diapause expose`")
	}
	return nil
}
