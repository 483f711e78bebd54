package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// goOn has the session of a name go on with what is on a host already. done is false if a session is to
// be made of it.
func (s *maker) goOn(ctx context.Context, n schemas.Name, req request, spec string) (out any, done bool, err error) {
	if req.Run.Existing == "" {
		return nil, false, nil
	}
	v, exists, err := s.existing(ctx, n, req.Run.Existing)
	if err != nil || !exists {
		return nil, err != nil, err
	}
	out, err = s.redeploy(ctx, v, req, spec)
	return out, true, err
}

// existing gives the session of a name, if there is one that isn't deleted. There has to be one that
// goes on with its own.
func (s *maker) existing(ctx context.Context, n schemas.Name, why schemas.Existing) (v statekv.Versioned, exists bool, err error) {
	if why == schemas.ExistingOwn {
		v, err = s.sessions.get(ctx, n)
		return v, err == nil, err
	}
	v, err = s.records.Get(ctx, n)
	if errors.Is(err, statekv.ErrNoSession) {
		return v, false, nil
	}
	return v, err == nil && v.State != schemas.Deleted, err
}

// redeploy has a session that doesn't run go on with what others have started on its host.
func (s *maker) redeploy(ctx context.Context, v statekv.Versioned, req request, spec string) (any, error) {
	n, r := v.Name(), req.Run
	t, refused := session.DecideRedeploy(v.SessionRecord, session.Successor{
		Host: cmp.Or(r.Host, s.hosts.host, v.Host), Driver: r.Driver, Called: r.Program, Why: r.Existing, Of: r.Of,
	}, time.Now().UTC())
	if refused != "" {
		hint := fmt.Sprintf("`diapause rm %s` removes it", n)
		if r.Existing == schemas.ExistingAsks && session.Can(v.State, schemas.TRedeployed) {
			hint = fmt.Sprintf("`diapause adopt --container %s --name %s` goes on with it", r.Program, n)
		}
		return nil, schemas.StateError(schemas.ReasonExists, "session %s exists: %s", n, refused).WithHint("%s", hint)
	}
	if err := s.knowsRedeploy(ctx, v); err != nil {
		return nil, err
	}
	op, err := s.sessions.newOp(ctx, schemas.OpStart)
	if err != nil {
		return nil, err
	}
	op.Boot, op.Back, t.Set.Op = schemas.BootClean, v.State == schemas.Suspended, op
	if r.Existing != schemas.ExistingOwn {
		op.Spec = spec
	}
	if r.Existing != schemas.ExistingChosen {
		req.Reason = "" // the decision says more
	}
	ch, stop := s.board.follow(n)
	defer stop()
	asked, err := s.sessions.ask(ctx, v, req, t)
	if errors.Is(err, statekv.ErrConflict) {
		return nil, schemas.StateError(schemas.ReasonConflict, "session %s was changed by another request just now", n)
	}
	if err != nil {
		return nil, err
	}
	got, err := await(ctx, ch, s.sessions.untilRunning(asked))
	return schemas.ViewOf(got.SessionRecord), err
}

// knowsRedeploy makes sure that a session's host doesn't start a second container beside the one
// that runs, as versions would that don't know of it.
func (s *maker) knowsRedeploy(ctx context.Context, v statekv.Versioned) error {
	hosts, err := s.hosts.fleet.Hosts(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(hosts, func(h fleet.Host) bool {
		return h.Host.Host == v.Host && slices.Contains(h.Knows, schemas.FeatureRedeploy)
	}) {
		return nil
	}
	return schemas.FailedError(schemas.ReasonNoHost, "session %s: the Diapause of host %s doesn't know %q", v.Name(), v.Host, schemas.FeatureRedeploy).WithHint("update it")
}
