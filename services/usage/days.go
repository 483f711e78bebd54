package usage

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// days sums up what the sessions of each tenant used in each day. It is kept by tenants: a
// million sessions of which each has sums for a year would take too much memory. A nil *days
// sums up nothing.
type days struct {
	edges   []int64 // each day ends where the next begins
	tenants map[schemas.Tenant][]day
}

// day is what all sessions of a tenant used in one.
type day struct {
	amount Amount
	stored int64 // bytes, at its end
}

// Days has f sum up days, too: those between the times that are given in order.
func (f *Fold) Days(edges ...time.Time) {
	f.days = &days{tenants: map[schemas.Tenant][]day{}}
	for _, e := range edges {
		f.days.edges = append(f.days.edges, nanoseconds(e))
	}
}

// of gives the day that follows an edge; nil if that is the last.
func (d *days) of(t schemas.Tenant, edge int) *day {
	if edge < 0 || edge >= len(d.edges)-1 {
		return nil
	}
	if d.tenants[t] == nil {
		d.tenants[t] = make([]day, len(d.edges)-1)
	}
	return &d.tenants[t][edge]
}

func (d *days) add(t schemas.Tenant, at int64, a Amount) {
	if d == nil {
		return
	}
	if one := d.of(t, zone(d.edges, at)-1); one != nil {
		one.amount = one.amount.Plus(a)
	}
}

// end is when the day of a time ends.
func (d *days) end(at int64) int64 {
	if d == nil {
		return math.MaxInt64
	}
	if i := zone(d.edges, at); i < len(d.edges) {
		return d.edges[i]
	}
	return math.MaxInt64
}

// passed notes what a session's images take, if a day ends there.
func (d *days) passed(s *Session, at int64) {
	if d == nil || s.Stored == 0 {
		return
	}
	i := zone(d.edges, at) - 1 // the day that begins there
	if i < 1 || d.edges[i] != at {
		return
	}
	if one := d.of(s.Name.Tenant, i-1); one != nil {
		one.stored += s.Stored
	}
}

// usage gives the days in which something was used, as they travel.
func (d *days) usage() []schemas.DayUsage {
	out := []schemas.DayUsage{}
	at := func(edge int) time.Time { return time.Unix(0, d.edges[edge]).UTC() }
	for t, all := range d.tenants {
		for i, one := range all {
			if one != (day{}) {
				out = append(out, schemas.DayUsage{Tenant: t, From: at(i), To: at(i + 1), StoredBytes: one.stored, Amount: one.amount.Wire()})
			}
		}
	}
	slices.SortFunc(out, func(a, b schemas.DayUsage) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}

// Midnights gives the edges of the days, in UTC, that are between two times: the first is the
// midnight before from, the last is to.
func Midnights(from, to time.Time) (edges []time.Time) {
	for at := from.UTC().Truncate(24 * time.Hour); at.Before(to); at = at.Add(24 * time.Hour) {
		edges = append(edges, at)
	}
	return append(edges, to.UTC())
}
