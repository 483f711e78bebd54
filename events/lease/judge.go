package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// The parts of a term. A holder renews at a third of it; a shim that hears of no
// renewal freezes its session at two thirds, so that it stands still well before
// an observer may call the lease run out, which takes all of it and a margin.
func renewEvery(term time.Duration) time.Duration { return term / 3 }

// FenceAfter is how long after a renewal was sent a session of that host may run.
func FenceAfter(term time.Duration) time.Duration { return term * 2 / 3 }

// overdue is how long after a lease was seen renewed the next renewal is missing: from then on
// its observer reads it at each look.
func overdue(term time.Duration) time.Duration { return term * 2 / 5 }

// margin is what an observer waits after a term. By the end of the term, counted from when the observer
// saw the last renewal, a session of that host has been frozen for a third of it, or was killed a
// twelfth before: the margin is for clocks that don't run alike, and costs each takeover that time.
func margin(term time.Duration) time.Duration { return min(term/4, longestMargin) }

const longestMargin = 3 * time.Second

// Seen is what an observer knows of one lease.
type Seen struct {
	Rev   uint64
	Since Clock // when this revision was first seen, or the observer began to hear again
	Last  Clock // when it was last seen
}

// Verdict is what an observer makes of a lease.
type Verdict string

// The verdicts.
const (
	Live    Verdict = "live"
	RunOut  Verdict = "run out" // it may be ended
	Expired Verdict = "expired" // it is ended
)

// Judge takes in one more look at a lease, at now. gap is how far two looks may be
// apart for the observer to have heard all the while: after a longer silence it
// starts its wait again, since renewals may have been what wasn't heard.
func Judge(s Seen, v Versioned, now Clock, gap time.Duration) (Seen, Verdict) {
	if s.Rev != v.Rev || now.Sub(s.Last) > gap {
		s.Rev, s.Since = v.Rev, now
	}
	s.Last = now
	switch {
	case v.State == schemas.LeaseExpired:
		return s, Expired
	case now.Sub(s.Since) >= v.Term()+margin(v.Term()):
		return s, RunOut
	}
	return s, Live
}

// ErrElsewhere says that another worker runs as the same host, in another place.
var ErrElsewhere = errors.New("another worker runs as this host")

// taken is the lease that a host takes on top of what it finds.
func taken(prev Versioned, h schemas.HostID, by string, term time.Duration) schemas.HostLease {
	return schemas.HostLease{
		Host: h, Incarnation: prev.Incarnation + 1, TermMS: term.Milliseconds(), State: schemas.LeaseHeld, By: by,
	}
}

// holderBy is who writes a host's lease: its worker, and where that is, if it says so.
func holderBy(h schemas.HostID, place string) string {
	if place == "" {
		return "worker@" + string(h)
	}
	return "worker@" + string(h) + placeMark + place
}

const placeMark = " in "

// rival is what a holder knows of another one that has the lease of the same host, in another place.
type rival struct {
	rev   uint64
	looks int // in which it wasn't renewed
}

// enoughLooks are as many as a holder that lives can't miss: one comes for each renewal.
const enoughLooks = 2

// contest takes in one more look at a lease that a holder wants, and says whether it may take it: one of another place
// must have stood still. A lease that was renewed meanwhile is an error.
func contest(r rival, found Versioned, by string) (next rival, take bool, err error) {
	switch {
	case found.State != schemas.LeaseHeld || found.By == by || !strings.Contains(found.By, placeMark) || !strings.Contains(by, placeMark):
		return rival{}, true, nil
	case r.rev == 0:
		return rival{rev: found.Rev}, false, nil
	case r.rev != found.Rev:
		return r, false, fmt.Errorf("host %s: %w", found.Host, ErrElsewhere)
	}
	r.looks++
	return r, r.looks >= enoughLooks, nil
}

// renewed is the next renewal of a lease.
func renewed(prev schemas.HostLease) schemas.HostLease {
	prev.Renewals++
	return prev
}

// ours reports whether a lease is the holder's, even if its last write is unknown.
func ours(found, held Versioned) bool {
	return found.State == schemas.LeaseHeld && found.Incarnation == held.Incarnation && found.By == held.By
}
