package scheduler

import (
	"slices"
	"time"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// reservation is a slot that is asked for, or was taken by a session whose record hasn't
// been read here yet. All who make room have them in the same order.
type reservation struct {
	schemas.Place
	until time.Duration
}

// reserve takes in what is said of a slot that is asked for.
func (hs *hosts) reserve(p schemas.Place) {
	h := hs.of(p.Host)
	i := slices.IndexFunc(h.reserved, func(r reservation) bool { return r.ID == p.ID })
	switch {
	case i >= 0:
		h.reserved[i].Place = p
	case p.Over && p.Revision <= hs.read: // it counts as a session, or not at all
	default:
		h.reserved = append(h.reserved, reservation{p, hs.now() + stream.PlaceKept})
	}
	hs.settle(h)
}

// settle drops the reservations of a host that aren't needed any more, or are too old.
func (hs *hosts) settle(h *host) {
	h.reserved = slices.DeleteFunc(h.reserved, func(r reservation) bool {
		return r.until < hs.now() || r.Over && r.Revision <= hs.read
	})
}

// arrived ends the reservation of a slot that a session has taken.
func (hs *hosts) arrived(t *tracked) {
	if h := t.host; len(h.reserved) > 0 {
		name := t.name().String()
		h.reserved = slices.DeleteFunc(h.reserved, func(r reservation) bool { return r.Session == name })
	}
}

// before counts the reservations of a host that were made before one; -1 if that isn't known.
func (hs *hosts) before(mine schemas.Place) int {
	return slices.IndexFunc(hs.of(mine.Host).reserved, func(r reservation) bool { return r.ID == mine.ID })
}

// free reports whether a host has a free slot. One without a limit has.
func (hs *hosts) free(name schemas.HostID) bool {
	h := hs.of(name)
	hs.settle(h)
	most := hs.slots(h)
	return most == 0 || len(h.slots)+h.coming+len(h.reserved) < most
}
