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

	// MakeRoomNow doesn't wait until others are idle, Prospects says where it would find room, and NoRoomNow
	// why it wouldn't. Stirred delivers when there may be more.
	MakeRoomNow(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error)
	Prospects(ctx context.Context, all []schemas.HostID) (map[schemas.HostID]scheduler.Prospect, error)
	NoRoomNow(ctx context.Context, h schemas.HostID) (*scheduler.NoRoom, error)
	Stirred() <-chan struct{}
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

// errFull says that there are hosts that can take a session, and none has room now.
var errFull = errors.New("no host has room")

// now finds a place for a session among hosts, without waiting until sessions there are idle: on a host of the
// first of the given prospects, or else of the next. Of an error that is errFull the room has the driver, and of any
// other the host that was asked, if it came to that. No session is evicted from the hosts of slow.
func (s *rooms) now(ctx context.Context, w fleet.Want, hosts []fleet.Host, slow []schemas.HostID, tiers ...scheduler.Prospect) (room, error) {
	host, d, err := s.hosts.among(ctx, hosts, w, nil)
	if err != nil {
		return room{}, err
	}
	nothing := func(statekv.Revision) {}
	maker, makes := s.scheduler.(RoomMaker)
	if !makes {
		return room{host: host, driver: d, release: nothing}, nil
	}
	for _, tier := range tiers {
		not, err := others(ctx, maker, hosts, tier)
		if err != nil {
			return room{}, err
		}
		if tier == scheduler.Makes {
			not = append(not, slow...)
		}
		for {
			host, with, err := s.hosts.among(ctx, hosts, w, not)
			if err != nil {
				break // there is no other
			}
			at, err := s.take(ctx, maker, w, host, with)
			var none *scheduler.NoRoom
			if !errors.As(err, &none) {
				return at, err
			}
			not = append(not, host) // another was quicker
		}
	}
	return room{driver: d, release: nothing}, errFull
}

// take has room made on one host, at once.
func (s *rooms) take(ctx context.Context, maker RoomMaker, w fleet.Want, host schemas.HostID, d schemas.Fingerprint) (room, error) {
	made, release, err := maker.MakeRoomNow(ctx, host, w.Session)
	var once sync.Once
	at := room{host: host, driver: d, release: func(taken statekv.Revision) { once.Do(func() { release(taken) }) }}
	for _, m := range made {
		at.made = append(at.made, m.String())
	}
	return at, err
}

// others lists the hosts whose prospects are none of the given ones.
func others(ctx context.Context, maker RoomMaker, hosts []fleet.Host, than ...scheduler.Prospect) (out []schemas.HostID, err error) {
	for _, h := range hosts {
		out = append(out, h.Host.Host)
	}
	all, err := maker.Prospects(ctx, out)
	return slices.DeleteFunc(out, func(h schemas.HostID) bool { return slices.Contains(than, all[h]) }), err
}

// why says for a caller why no host takes a session now. It names no session that the caller may not know of.
func (s *rooms) why(ctx context.Context, w fleet.Want, hosts []fleet.Host, by Caller) string {
	host, _, err := s.hosts.among(ctx, hosts, w, nil)
	if err != nil {
		return err.Error()
	}
	maker, makes := s.scheduler.(RoomMaker)
	if !makes {
		return "a host is about to be chosen"
	}
	if not, err := others(ctx, maker, hosts, scheduler.Makes, scheduler.Free); err == nil {
		if _, _, err := s.hosts.among(ctx, hosts, w, not); err == nil {
			return "a host is about to be chosen"
		}
	}
	none, err := maker.NoRoomNow(ctx, host)
	if err != nil {
		return err.Error()
	}
	return none.For(by.knows)
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
