package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// patience is how long an eviction waits for a session that was used a moment ago and
// matters less than those that weren't; roomEvery is how often MakeRoom looks.
const (
	patience  = yield + time.Second
	roomEvery = 50 * time.Millisecond
)

// releaseWait bounds how long release takes to publish that a slot isn't needed any more.
const releaseWait = time.Second

// MakeRoom waits until a host has a free slot, evicts a session if that is needed, and
// reserves the slot until release is called, with the revision of the record that took it,
// or zero if none did. No two callers, here or in other processes, get the same slot. It
// gives the sessions that it evicted. The error is a *NoRoom if none may be, or that of ctx.
// A host that announced no slots has room.
func (s *Scheduler) MakeRoom(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error) {
	return s.makeRoom(ctx, h, who, false)
}

// makeRoom is MakeRoom; with now, it is MakeRoomNow.
func (s *Scheduler) makeRoom(ctx context.Context, h schemas.HostID, who schemas.Name, now bool) (suspended []schemas.Name, release func(taken statekv.Revision), err error) {
	nothing := func(statekv.Revision) {}
	if limited, err := s.limited(ctx, h, now); err != nil || !limited {
		return nil, nothing, err
	}
	mine := schemas.Place{ID: nuid.Next(), Host: h, Session: who.String(), By: s.Actor, At: time.Now().UTC()}
	release = func(taken statekv.Revision) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		over := mine
		over.Over, over.Revision = true, taken.Seq()
		_ = s.ask(ctx, func(l *loop) { l.hosts.reserve(over) })
		_ = s.place(ctx, over) // else it is free for the others after a while
	}
	if err := s.place(ctx, mine); err != nil {
		release(statekv.Revision{}) // it may have been stored
		return nil, nothing, fmt.Errorf("ask for a place on host %s: %w", h, err)
	}
	if suspended, err = s.awaitRoom(ctx, mine, now); err != nil {
		release(statekv.Revision{})
		return suspended, nothing, err
	}
	return suspended, release, nil
}

// HasRoom reports whether a host has a free slot, as far as is known here. One without a
// limit has.
func (s *Scheduler) HasRoom(ctx context.Context, h schemas.HostID) (has bool, err error) {
	err = s.ask(ctx, func(l *loop) { has = l.hosts.free(h) })
	return has, err
}

// reportWait is how long MakeRoom waits for the first announcement of a host: it was made,
// and may not have been read yet.
const reportWait = 2 * time.Second

// limited reports whether a host has a limited number of slots. One of which that isn't known has none, or
// with must, a *NoRoom.
func (s *Scheduler) limited(ctx context.Context, h schemas.HostID, must bool) (limited bool, err error) {
	deadline := time.Now().Add(reportWait)
	for known := false; err == nil && !known; {
		err = s.ask(ctx, func(l *loop) {
			at := l.hosts.of(h)
			limited, known = l.hosts.slots(at) > 0, at.report.Host != "" || s.Hosts == nil
		})
		if over := time.Now().After(deadline); over && !known && must {
			return false, &NoRoom{Host: h, Unheard: true}
		} else if over {
			known = true
		}
		if err == nil && !known {
			err = pause(ctx, roomEvery)
		}
	}
	return limited, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRoom waits until the reserved slot is free.
func (s *Scheduler) awaitRoom(ctx context.Context, mine schemas.Place, now bool) (suspended []schemas.Name, err error) {
	deadline := time.Now()
	if !now {
		deadline = deadline.Add(patience)
	}
	for listed := false; ; {
		var free, hope, there bool
		var none *NoRoom
		err := s.ask(ctx, func(l *loop) {
			var name *schemas.Name
			if free, name, none, hope = l.evictor.room(ctx, mine, deadline, now); name != nil {
				suspended = append(suspended, *name)
			}
			there = l.hosts.before(mine) >= 0
		})
		switch {
		case err != nil || free:
			return suspended, err
		case listed && !there:
			return suspended, fmt.Errorf("slot of session %s on host %s: taken, or older than %s", mine.Session, mine.Host, stream.PlaceKept)
		case none != nil && !hope:
			return suspended, none
		}
		if err := pause(ctx, roomEvery); err != nil {
			return suspended, err
		}
		listed = listed || there
	}
}

// place publishes a reservation to all schedulers.
func (s *Scheduler) place(ctx context.Context, p schemas.Place) error {
	s.places()
	for again := time.Now().Add(reportWait); s.Places != nil && !s.apart.Load(); {
		err := s.Places.Place(ctx, p)
		if !errors.Is(err, jetstream.ErrNoStreamResponse) || time.Now().After(again) {
			return err
		}
		if err := pause(ctx, roomEvery); err != nil { // there is no bucket, as followPlaces finds, or it has no leader
			return err
		}
	}
	return s.ask(ctx, func(l *loop) { l.hosts.reserve(p) })
}

// placesAgain is the pause before reservations that couldn't be followed are tried again.
const placesAgain = time.Second

// followPlaces takes in the reservations of all schedulers, from the first that is made
// here. Their bucket is missing if an older version made the streams. Any other fault of it
// holds up MakeRoom, and nothing else.
func (s *Scheduler) followPlaces(ctx context.Context) error {
	select {
	case <-s.placing:
	case <-ctx.Done():
		return nil
	}
	for said := false; ; said = true {
		err := s.Places.Places(ctx, func(p schemas.Place) {
			send(ctx, s.asks, func(l *loop) { l.hosts.reserve(p) })
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			s.apart.Store(true)
			s.Log.Warn("of several `diapause up` two may give the same place of a host away; one of this version that may make streams mends that", "err", err)
			return nil
		case err != nil && !said:
			s.Log.Warn("places of hosts that are asked for can't be followed: sessions that need one wait; trying again", "err", err)
		}
		if pause(ctx, placesAgain) != nil {
			return nil
		}
	}
}
