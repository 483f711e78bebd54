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

// patience is how long it is waited for a session that was used a moment ago and
// matters less than those that weren't; roomEvery is how often making room looks.
const (
	patience  = yield + time.Second
	roomEvery = 50 * time.Millisecond
)

// releaseWait is how long it may take to say that a place isn't needed any more.
const releaseWait = time.Second

// MakeRoom waits until a host has a place for one more session, has one suspended if
// need be, and keeps the place until release is called, with the revision of the record that
// took it, or zero if none did. Of several who ask, here or elsewhere, no two get the same
// place. It gives what it had
// suspended. The error is a *NoRoom if nothing may be suspended, or that of ctx. A host
// that said of no slots has room.
func (s *Scheduler) MakeRoom(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error) {
	nothing := func(statekv.Revision) {}
	if limited, err := s.limited(ctx, h); err != nil || !limited {
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
	if suspended, err = s.awaitRoom(ctx, mine); err != nil {
		release(statekv.Revision{})
		return suspended, nothing, err
	}
	return suspended, release, nil
}

// HasRoom reports whether a host has a free place, as far as is known here: one that said of
// no slots has room.
func (s *Scheduler) HasRoom(ctx context.Context, h schemas.HostID) (has bool, err error) {
	err = s.ask(ctx, func(l *loop) { has = l.hosts.free(h) })
	return has, err
}

// reportWait is how long it is waited for the first word of a host that sessions are placed
// on: it has said one, which may not have been read yet.
const reportWait = 2 * time.Second

// limited reports whether a host has room for so many sessions and no more.
func (s *Scheduler) limited(ctx context.Context, h schemas.HostID) (limited bool, err error) {
	deadline := time.Now().Add(reportWait)
	for known := false; err == nil && !known; {
		err = s.ask(ctx, func(l *loop) {
			r := l.hosts.of(h).report
			limited, known = r.Slots > 0, r.Host != "" || s.Hosts == nil || time.Now().After(deadline)
		})
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

// awaitRoom waits until a place is there.
func (s *Scheduler) awaitRoom(ctx context.Context, mine schemas.Place) (suspended []schemas.Name, err error) {
	deadline := time.Now().Add(patience)
	for listed := false; ; {
		var free, hope, there bool
		var none *NoRoom
		err := s.ask(ctx, func(l *loop) {
			var name *schemas.Name
			if free, name, none, hope = l.evictor.room(ctx, mine, deadline); name != nil {
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

// place says something of a place, to all who make room.
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

// placesAgain is how soon places that couldn't be followed are tried again.
const placesAgain = time.Second

// followPlaces takes in what is said of places, once one is asked for here. The bucket of
// them may be lacking, if what makes the streams is of an older version. Any other
// fault of it holds up those who ask for a place, and no others.
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
