package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
)

// rooms finds hosts with room for one more session.
type rooms struct {
	hosts     *placement
	scheduler Explainer
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

// find finds a place for a session: on a host that has room, or else where some
// can be made. An error names no session that the caller may not know of.
func (s *rooms) find(ctx context.Context, w fleet.Want, by Caller) (room, error) {
	maker, makes := s.scheduler.(RoomMaker)
	var tried, full []schemas.HostID
	var first error
	if makes {
		var err error
		if full, err = s.fullOnes(ctx, maker, w); err != nil {
			return room{}, err
		}
	}
	for {
		host, d, err := s.hosts.place(ctx, w, slices.Concat(tried, full))
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
		made, release, err := maker.MakeRoom(ctx, host, w.Session)
		for _, m := range made {
			at.made = append(at.made, m.String())
		}
		var none *scheduler.NoRoom
		if errors.As(err, &none) {
			first, tried = cmp.Or[error](first, schemas.StateError(schemas.ReasonNoRoom, "%s", none.For(by.knows))), append(tried, host)
			continue
		}
		var once sync.Once
		at.release = func(taken statekv.Revision) { once.Do(func() { release(taken) }) }
		return at, err
	}
}

// fullOnes gives the hosts that would be chosen before one with a free place, and have none:
// what hosts say of that themselves is of a moment ago.
func (s *rooms) fullOnes(ctx context.Context, maker RoomMaker, w fleet.Want) (full []schemas.HostID, err error) {
	for {
		host, _, err := s.hosts.place(ctx, w, full)
		if err != nil {
			return full, nil // there is no other
		}
		if has, err := maker.HasRoom(ctx, host); err != nil || has {
			return full, err
		}
		full = append(full, host)
	}
}
