package queue

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Kind is what a session needs of a host, in a form that can be compared.
type Kind string

// KindOf gives the kind of a session.
func KindOf(r schemas.SessionRecord) Kind {
	of := struct {
		Driver    schemas.DriverName
		Only      schemas.HostID
		Placement *schemas.Placement
		Needs     []schemas.Feature
		Tenant    schemas.Tenant // with a placement: which hosts do depends on the tenant's other sessions
		Apart     schemas.SessionID
	}{Driver: r.Driver, Placement: r.Placement, Needs: slices.Sorted(slices.Values(r.Needs))}
	// All hosts of a fleet record, or none does by default: it gives no session a line of its own.
	of.Needs = slices.DeleteFunc(of.Needs, func(f schemas.Feature) bool { return f == schemas.FeatureRecording })
	if r.Op != nil {
		of.Only = r.Op.Only
	}
	if p := r.Placement; p != nil && (p.Spread || len(p.Apart) > 0) {
		of.Tenant = r.Tenant
	}
	if p := r.Placement; p != nil && len(p.Apart) > 0 {
		of.Apart = r.Session // which others stay apart from is its own
	}
	data, _ := json.Marshal(of) // of strings alone: it always encodes
	return Kind(data)
}

// Waiting is a session that waits for a host.
type Waiting struct {
	Name   schemas.Name
	UID    schemas.UID
	Came   time.Time
	Kind   Kind
	Placed bool // it has a placement: where it may go depends on where others run
}

// Of lists the sessions that wait, the first that came in front.
func Of(records iter.Seq[schemas.SessionRecord]) (all []Waiting) {
	for r := range records {
		if r.Queued() {
			all = append(all, Waiting{r.Name(), r.UID, r.Created, KindOf(r), r.Placement != nil})
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(a.Came.Compare(b.Came), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// Places says where each of them stands, among those of its kind.
func Places(all []Waiting) map[schemas.UID]schemas.QueuePlace {
	of := map[Kind]int{}
	for _, w := range all {
		of[w.Kind]++
	}
	out, place := make(map[schemas.UID]schemas.QueuePlace, len(all)), map[Kind]int{}
	for _, w := range all {
		place[w.Kind]++
		out[w.UID] = schemas.QueuePlace{Place: place[w.Kind], Of: of[w.Kind], Limit: schemas.LimitRoom}
	}
	return out
}

// Again is the least time between two tries for the same session, and between two rounds. Calm is that
// between rounds of which the last placed none, and Slow how long it takes at most until
// the next one.
const (
	Again = 250 * time.Millisecond
	Calm  = time.Second
	Slow  = 10 * time.Second
)

// Round is one pass over those that wait. The zero Round has tried none.
type Round struct {
	over   map[schemas.UID]bool // tried in this round
	full   map[Kind]bool        // one of them found no host in this round
	placed int
	chosen bool // one with a placement has a host now, of which its fleet may not know yet
}

// Decide says which session is to be tried next; ok is false if the round is over. tried is when each
// was tried last.
func (r *Round) Decide(all []Waiting, tried map[schemas.UID]time.Time, now time.Time) (next Waiting, ok bool) {
	held := map[Kind]bool{}
	for _, w := range all {
		if r.over[w.UID] || r.full[w.Kind] || held[w.Kind] {
			continue
		}
		if at, was := tried[w.UID]; was && now.Sub(at) < Again || w.Placed && r.chosen {
			held[w.Kind] = true // the later ones don't overtake it
			continue
		}
		return w, true
	}
	return Waiting{}, false
}

// Tell takes note of what came of a try.
func (r *Round) Tell(w Waiting, placed bool) {
	if r.over == nil {
		r.over, r.full = map[schemas.UID]bool{}, map[Kind]bool{}
	}
	r.over[w.UID] = true
	if !placed {
		r.full[w.Kind] = true
		return
	}
	r.placed++
	r.chosen = r.chosen || w.Placed
}

// Rest says how long to wait after the round: at least, if there is news of hosts, and at most. Only a
// round that placed one is followed by another at once, since there may be more room.
func (r *Round) Rest() (least, most time.Duration) {
	if r.placed > 0 {
		return Again, Again
	}
	return Calm, Slow
}
