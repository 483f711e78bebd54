package session

import (
	"maps"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Message is one message of the activity stream as its reader saw it.
type Message struct {
	Source   schemas.Source
	Activity schemas.Activity
	Seq      uint64    // in the stream
	At       time.Time // when it counts from: by this host's clock, never the publisher's
}

// View is what is known of a session: its record, and of its activity the last
// word of each kind. The zero View knows nothing.
type View struct {
	Record schemas.SessionRecord
	// HeardSince is when its reader began to hear: what happened earlier may
	// have gone unheard, so no grace began before.
	HeardSince time.Time

	since  time.Time        // when its state was seen to change
	last   Mark             // that counted
	waking Mark             // that wakes
	leases map[string]Lease // by kind.key
	seq    uint64           // the highest seen
}

// Mark is one piece of activity.
type Mark struct {
	Seq  uint64
	At   time.Time
	What string // "input", "busy.cpu"
}

// Lease is a live lease.
type Lease struct {
	Mark
	Until  time.Time
	Reason string
}

// See takes in a revision of the record, seen at now.
func (v *View) See(r schemas.SessionRecord, now time.Time) {
	if r.UID != v.Record.UID {
		// A new session. What was heard of it may have come before its record.
		v.since = time.Time{}
		for _, m := range []*Mark{&v.last, &v.waking} {
			if m.Seq <= r.Born {
				*m = Mark{}
			}
		}
	}
	maps.DeleteFunc(v.leases, func(_ string, l Lease) bool { return l.Seq <= r.Born })
	if r.State != v.Record.State || v.since.IsZero() {
		v.since = now
	}
	v.Record = r
}

// Seq is the highest sequence of the activity stream that the view has heard
// for its session.
func (v *View) Seq() uint64 { return v.seq }

// Hear takes in one message. Messages may come again, and out of order for
// different kinds; an older word of a kind never undoes a newer.
func (v *View) Hear(m Message, p Policy) {
	if m.Seq <= v.Record.Born {
		return // it spoke of an earlier session of that name
	}
	v.seq = max(v.seq, m.Seq)
	what := string(m.Source.Kind)
	if m.Source.Key != "" {
		what += "." + m.Source.Key
	}
	mark := Mark{Seq: m.Seq, At: m.At, What: what}
	e := p.EffectOf(m.Source, m.Activity)
	if e.Lease {
		v.lease(mark, m)
	}
	// A lease other than busy says that someone is there while it lives; its
	// end is no activity, so that losing a connection keeps nothing awake.
	if counts := e.Counts && (!e.Lease || m.Source.Kind == schemas.KindBusy); counts && m.Seq > v.last.Seq {
		v.last = mark
	}
	if e.Wakes && m.Seq > v.waking.Seq {
		v.waking = mark
	}
}

func (v *View) lease(mark Mark, m Message) {
	if old, ok := v.leases[mark.What]; ok && old.Seq > m.Seq {
		return
	}
	ttl := time.Duration(m.Activity.TTL)
	if ttl <= 0 {
		ttl = schemas.DefaultLease
	}
	l := Lease{Mark: mark, Until: m.At.Add(min(ttl, schemas.MaxLease)), Reason: m.Activity.Reason}
	if m.Activity.Released {
		l.Until = m.At
	}
	if v.leases == nil {
		v.leases = map[string]Lease{}
	}
	v.leases[mark.What] = l
	if len(v.leases) > maxLeases {
		v.dropLease()
	}
}

// maxLeases bounds the leases that are remembered of one session: anyone may
// publish under any key. The ones that end last are kept, and those decide.
const maxLeases = 128

func (v *View) dropLease() {
	first := ""
	for key, l := range v.leases {
		if first == "" || l.Until.Before(v.leases[first].Until) {
			first = key
		}
	}
	delete(v.leases, first)
}

// IdleSince is when the session's grace began: at the last activity that
// counted, when it came to run, or when its reader began to hear, whichever is
// latest.
func (v *View) IdleSince() time.Time {
	return latest(v.last.At, v.since, v.HeardSince)
}

func latest(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}
