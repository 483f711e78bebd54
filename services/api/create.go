package api

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// maker answers the verbs that make a session.
type maker struct {
	sessions   *sessions
	hosts      *placement
	rooms      *rooms
	quotas     *quotas
	captures   *capturer
	snapshots  *snapshots
	resumes    *resumer
	ends       *ender
	sealer     *sealer
	importer   *importer
	network    string // of process trees that don't say which they want
	board      *board
	desktops   *desktops
	failpoints *failpoint.Set
	images     objectstore.Store
	records    *statekv.Store
}

// create makes a session's record under a free name and waits until it runs.
// check, if given, has a last look once the record is made.
func (s *maker) create(ctx context.Context, n schemas.Name, req request, fresh schemas.NewSession, t schemas.Transition, check func(statekv.Versioned) error) (any, error) {
	if err := n.ValidateNew(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	if out, made, err := s.again(ctx, n, req, fresh.Program); made {
		return out, err
	}
	prev, err := s.records.Get(ctx, n)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return nil, err
	}
	if err == nil && prev.State != schemas.Deleted {
		if out, made, err := s.again(ctx, n, req, fresh.Program); made { // by the same request, just now
			return out, err
		}
		return nil, schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", n, prev.State).WithHint("`diapause rm %s` removes it", n)
	}
	if prev.Op != nil {
		return nil, schemas.StateError(schemas.ReasonBusy, "the last session named %s is being removed: %s", n, prev.Transition.Reason).WithHint("try again later")
	}
	if err := s.quotas.mayBegin(ctx, n.Tenant); err != nil {
		return nil, err
	}
	w, err := s.hosts.wantNew(ctx, n, fresh, t.Set.Op.Source, req)
	if err != nil {
		return nil, err
	}
	at, err := s.seat(ctx, w, req, fresh)
	if err != nil {
		return nil, err
	}
	defer at.release(statekv.Revision{})
	fresh.UID, fresh.Tenant, fresh.Session, fresh.Driver = uidFor(n, req, time.Now()), n.Tenant, n.Session, at.driver.Driver
	fresh.Lineage, fresh.Born, fresh.Keeps = string(fresh.UID), t.Set.Op.Seq, at.driver.Keeps
	if t.Set.New, t.Set.Host = &fresh, at.host; at.host == "" {
		t.Set.Op.Unplaced, t.Set.Op.Only = true, w.Only
		t.Reason += "; it waits for room on a host"
	}
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.sessions.ask(ctx, prev, req, t)
	if err == nil {
		at.release(v.Rev)
	}
	if errors.Is(err, statekv.ErrConflict) {
		if out, made, err := s.again(ctx, n, req, fresh.Program); made {
			return out, err
		}
		return nil, schemas.StateError(schemas.ReasonConflict, "session %s was made by another request just now", n)
	}
	if err == nil && check != nil {
		err = check(v)
	}
	if err != nil {
		return nil, err
	}
	if v.Queued() {
		return s.seen(ctx, v, ch, at.made)
	}
	got, err := await(ctx, ch, s.sessions.untilRunning(v))
	if from := v.Op.Source; from != nil {
		got, err = s.resumes.elsewhere(ctx, got, req, *from, v.Op.Boot, ch, err)
	}
	if err != nil && t.Type == schemas.TForkNew && got.UID == v.UID && got.Generation == 0 && couldNot(got, err) {
		return nil, s.clear(ctx, req, got, ch, err)
	}
	view := schemas.ViewOf(got.SessionRecord)
	view.MadeRoom = at.made
	return view, err
}
