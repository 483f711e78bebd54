package archive

import (
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Policy says which revisions stay in NATS.
type Policy struct {
	Age     time.Duration // younger ones; all if zero
	Count   int           // the last ones of each session, of any age
	Removed time.Duration // those of a removed session, for so long; for ever if zero
}

const day = 24 * time.Hour

// Default is the policy where none is set.
func Default() Policy { return Policy{Age: 30 * day, Count: 64, Removed: 7 * day} }

// through is the time since which NATS alone tells the state of every session: what was moved
// had a successor before it.
func (p Policy) through(now time.Time) time.Time {
	var shortest time.Duration
	for _, d := range []time.Duration{p.Age, p.Removed} {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return now.Add(-shortest)
}

// over reports whether a session is removed, with nothing left to do.
func over(r schemas.SessionRecord) bool { return r.State == schemas.Deleted && r.Op == nil }

// expired reports whether a session was removed so long ago that it needn't stay.
func (p Policy) expired(newest statekv.Versioned, now time.Time) bool {
	return p.Removed > 0 && over(newest.SessionRecord) && now.Sub(newest.Stored) >= p.Removed
}

// MayBeDue reports whether any revision of a session can be due, by its newest one and how many
// the log has. forget says that the newest one of a removed session may go, too.
func (p Policy) MayBeDue(newest statekv.Versioned, count int, now time.Time, forget bool) bool {
	if p.expired(newest, now) {
		return forget || count > 1
	}
	return p.Age > 0 && count > p.Count
}

// Old reports whether revisions after this one may be due as well.
func (p Policy) Old(newest, v statekv.Versioned, now time.Time) bool {
	return p.expired(newest, now) || v.UID != newest.UID || now.Sub(v.Stored) >= p.Age
}

// Due says how many of a session's oldest revisions are to be moved. oldest has them, up to
// the first that isn't Old or fewer; count is how many the log has in all.
//
// Of a session that isn't removed these stay: the newest; the last Count; those younger than
// Age, and the one before them, so that the log tells what the session was at any time since
// then; and all since the session came to its head, and to be suspended, since when both
// happened decides what is trusted and what expires.
func (p Policy) Due(newest statekv.Versioned, count int, oldest []statekv.Versioned, now time.Time, forget bool) int {
	if p.expired(newest, now) {
		n := len(oldest)
		if n > 0 && oldest[n-1].Rev == newest.Rev && !forget {
			n--
		}
		return n
	}
	if p.Age == 0 {
		return 0
	}
	n := p.earlierLives(newest, oldest, now)
	for n < count-p.Count && n+1 < len(oldest) && now.Sub(oldest[n+1].Stored) >= p.Age && !anchors(newest, oldest[n]) {
		n++
	}
	return n
}

// earlierLives counts the revisions of sessions that had the name before, and were removed so
// long ago that they needn't stay.
func (p Policy) earlierLives(newest statekv.Versioned, oldest []statekv.Versioned, now time.Time) int {
	n := 0
	for i, v := range oldest {
		if v.UID == newest.UID {
			break
		}
		if p.Removed > 0 && over(v.SessionRecord) && now.Sub(v.Stored) >= p.Removed && i+1 < len(oldest) && oldest[i+1].UID != v.UID {
			n = i + 1
		}
	}
	return n
}

// anchors reports whether something goes by the time of this revision.
func anchors(newest, v statekv.Versioned) bool {
	if v.UID != newest.UID {
		return false
	}
	if newest.Head != nil && v.Head != nil && *newest.Head == *v.Head {
		return true
	}
	return newest.State == schemas.Suspended && v.State == newest.State && v.Since.Equal(newest.Since)
}
