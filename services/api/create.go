package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// maker answers the verbs that make a session.
type maker struct {
	sessions   *sessions
	hosts      *placement
	quotas     *quotas
	captures   *capturer
	resumes    *resumer
	ends       *ender
	sealer     *sealer
	network    string // of process trees that don't say which they want
	board      *board
	failpoints *failpoint.Set
	images     objectstore.Store
	records    *statekv.Store
	scheduler  Explainer
}

// RoomMaker is a Scheduler that makes room on a full host. *scheduler.Scheduler is one.
type RoomMaker interface {
	// HasRoom reports whether a host has a free place, as far as is known here.
	HasRoom(ctx context.Context, h schemas.HostID) (bool, error)
	MakeRoom(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error)
}

var _ RoomMaker = (*scheduler.Scheduler)(nil)

// room is a place for one more session.
type room struct {
	host   schemas.HostID
	driver schemas.Fingerprint
	made   []string // the sessions that were suspended for it
	// release is called once it is taken, by the record of the revision, or isn't needed.
	release func(taken statekv.Revision)
}

// create makes a session's record under a free name and waits until it runs.
// check, if given, has a last look once the record is made.
func (s *maker) create(ctx context.Context, n schemas.Name, req request, fresh schemas.NewSession, t schemas.Transition, check func(statekv.Versioned) error) (any, error) {
	if err := n.ValidateNew(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	prev, err := s.records.Get(ctx, n)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return nil, err
	}
	if err == nil && prev.State != schemas.Deleted {
		return nil, schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", n, prev.State).WithHint("`diapause rm %s` removes it", n)
	}
	if prev.Op != nil {
		return nil, schemas.StateError(schemas.ReasonBusy, "the last session named %s is being removed: %s", n, prev.Transition.Reason).WithHint("try again later")
	}
	if err := s.quotas.mayBegin(ctx, n.Tenant); err != nil {
		return nil, err
	}
	at, err := s.roomFor(ctx, fresh.Driver, n, t.Set.Op.Source, req)
	if err != nil {
		return nil, err
	}
	defer at.release(statekv.Revision{})
	fresh.UID, fresh.Tenant, fresh.Session, fresh.Driver = newUID(), n.Tenant, n.Session, at.driver.Driver
	fresh.Lineage, fresh.Born, fresh.Keeps = string(fresh.UID), t.Set.Op.Seq, at.driver.Keeps
	t.Set.New, t.Set.Host = &fresh, at.host
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.sessions.ask(ctx, prev, req, t)
	if err == nil {
		at.release(v.Rev)
	}
	if errors.Is(err, statekv.ErrConflict) {
		return nil, schemas.StateError(schemas.ReasonConflict, "session %s was made by another request just now", n)
	}
	if err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(v); err != nil {
			return nil, err
		}
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

// roomFor finds a place for a new session: on a host that has room, or else where some
// can be made.
func (s *maker) roomFor(ctx context.Context, driver schemas.DriverName, n schemas.Name, from *schemas.Head, req request) (room, error) {
	maker, makes := s.scheduler.(RoomMaker)
	var tried, full []schemas.HostID
	var first error
	if makes {
		var err error
		if full, err = s.fullOnes(ctx, maker, driver, n, from, req); err != nil {
			return room{}, err
		}
	}
	for {
		host, d, err := s.hosts.place(ctx, driver, n, from, req, slices.Concat(tried, full))
		if err != nil && len(full) > 0 {
			full = nil // then room is made on one of these
			continue
		}
		if err != nil {
			return room{}, cmp.Or(first, err)
		}
		at := room{host: host, driver: d, release: func(statekv.Revision) {}}
		if !makes {
			return at, nil
		}
		made, release, err := maker.MakeRoom(ctx, host, n)
		for _, m := range made {
			at.made = append(at.made, m.String())
		}
		var none *scheduler.NoRoom
		if errors.As(err, &none) {
			first, tried = cmp.Or[error](first, schemas.StateError(schemas.ReasonNoRoom, "%v", err)), append(tried, host)
			continue
		}
		var once sync.Once
		at.release = func(taken statekv.Revision) { once.Do(func() { release(taken) }) }
		return at, err
	}
}

// fullOnes gives the hosts that would be chosen before one with a free place, and have none:
// what hosts say of that themselves is of a moment ago.
func (s *maker) fullOnes(ctx context.Context, maker RoomMaker, driver schemas.DriverName, n schemas.Name, from *schemas.Head, req request) (full []schemas.HostID, err error) {
	for {
		host, _, err := s.hosts.place(ctx, driver, n, from, req, full)
		if err != nil {
			return full, nil // there is no other
		}
		if has, err := maker.HasRoom(ctx, host); err != nil || has {
			return full, err
		}
		full = append(full, host)
	}
}
