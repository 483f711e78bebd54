package session

import (
	"math"
	"slices"
	"strings"
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
	Record schemas.SessionRecord // its Since is zero if it was seen to enter that state
	// HeardSince is when its reader began to hear: what happened earlier may
	// have gone unheard, so no grace began before.
	HeardSince time.Time

	since  time.Time // when its state was seen to change
	last   Mark      // that counted
	waking Mark      // that wakes
	leases []Lease   // one of each kind.key, those too that the policy doesn't hear
	seq    uint64    // the highest seen

	until   time.Time // the latest end of a lease that counted and was forgotten
	leased  time.Time // of those that were no answer
	noticed time.Time // when it was said that a suspend is near

	commands uint8 // that it was given, as far as its reader heard
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
		v.since, v.until, v.leased, v.commands = time.Time{}, time.Time{}, time.Time{}, 0
		for _, m := range []*Mark{&v.last, &v.waking} {
			if m.Seq <= r.Born {
				*m = Mark{}
			}
		}
	}
	v.leases = slices.DeleteFunc(v.leases, func(l Lease) bool { return l.Seq <= r.Born })
	// What was seen to happen is counted from then, by this host's clock; what its record
	// says of that is for who came later.
	lived := r.UID == v.Record.UID && (r.State != v.Record.State || v.Record.Since.IsZero())
	if r.State != v.Record.State || v.since.IsZero() || begun(&v.Record, &r) {
		v.since, v.noticed = now, time.Time{}
	}
	if v.Record = r; lived {
		v.Record.Since = time.Time{}
	}
}

// begun reports whether a session that was recorded to run has now been begun by its host:
// until then nobody could use it.
func begun(before, now *schemas.SessionRecord) bool {
	return before.UID == now.UID && before.State == schemas.Running && now.State == schemas.Running &&
		before.Op != nil && before.Op.Kind == schemas.OpBegin && now.Op == nil
}

// Last is the last activity that counted, the zero Mark if none was heard.
func (v *View) Last() Mark { return v.last }

// Seq is the highest sequence of the activity stream that the view has heard
// for its session.
func (v *View) Seq() uint64 { return v.seq }

// Hear takes in one message. Messages may come again, and out of order for
// different kinds; an older word of a kind never undoes a newer.
func (v *View) Hear(m Message, p Policy) {
	if m.Seq <= v.Record.Born {
		return // it spoke of an earlier session of that name
	}
	if command := m.Source.Kind == schemas.KindExec || m.Source.Kind == schemas.KindInput; command && m.Seq > v.seq && v.commands < math.MaxUint8 {
		v.commands++
	}
	v.seq = max(v.seq, m.Seq)
	what := string(m.Source.Kind)
	if m.Source.Key != "" {
		what += "." + m.Source.Key
	}
	mark := Mark{Seq: m.Seq, At: m.At, What: what}
	e := p.EffectOf(m.Source, m.Activity)
	// A grace begins when an operation ends. A lease other than busy says that someone
	// is there while it lives; its end is no activity, so that losing a connection
	// keeps nothing awake.
	busy := m.Source.Kind == schemas.KindBusy && p.hears(m.Source.Kind, what)
	counts := e.Counts && (!e.Lease || busy) || busy && m.Activity.Released && v.living(what, m.At)
	if e.Lease {
		v.lease(mark, m, p)
	}
	if e.Counts && (what != answer || v.putsOff(p)) {
		v.noticed = time.Time{} // whoever was told has answered, or has gone
	}
	if counts && m.Seq > v.last.Seq {
		v.last = mark
	}
	if e.Wakes && m.Seq > v.waking.Seq {
		v.waking = mark
	}
}

// answer is a hold that answers a question.
const answer = string(schemas.KindHold) + "." + schemas.AnswerKey

// putsOff reports whether an answer may still put off what was said last. It doesn't go by
// how long the answer itself lasts: else activity, after which the question is asked later,
// could have an answer come to nothing that was one without it.
func (v *View) putsOff(p Policy) bool {
	return p.Defer == 0 || v.deferrable(p).After(v.noticed.Add(p.lead()))
}

// deferrable is until when answers can put a suspend off. It is counted from when the
// session is suspended if nobody answers, which all activity that counts and every lease
// but an answer put off: so no word of anyone makes a suspend come earlier.
func (v *View) deferrable(p Policy) time.Time {
	ends := v.leased
	for _, l := range v.leases {
		if l.keeps(p) {
			ends = latest(ends, l.Until)
		}
	}
	return latest(v.IdleSince().Add(max(p.Grace, p.lead())), ends.Add(p.lead())).Add(p.Deferrals)
}

// Notified takes note that it was said at now that a suspend is near.
func (v *View) Notified(now time.Time) { v.noticed = now }

// living reports whether a lease lives at a time.
func (v *View) living(what string, now time.Time) bool {
	return slices.ContainsFunc(v.leases, func(l Lease) bool { return l.What == what && l.Until.After(now) })
}

func (v *View) lease(mark Mark, m Message, p Policy) {
	at := slices.IndexFunc(v.leases, func(l Lease) bool { return l.What == mark.What })
	if at >= 0 && v.leases[at].Seq > m.Seq {
		return
	}
	ttl := time.Duration(m.Activity.TTL)
	if ttl <= 0 {
		ttl = schemas.DefaultLease
	}
	l := Lease{Mark: mark, Until: m.At.Add(min(ttl, schemas.MaxLease)), Reason: m.Activity.Reason}
	if m.Activity.Released {
		l.Until = m.At
		if at >= 0 && v.leases[at].keeps(p) && v.leases[at].Until.After(m.At) {
			v.leased = latest(v.leased, m.At)
		}
	}
	if at >= 0 {
		v.leases[at] = l
		return
	}
	v.leases = append(v.leases, l)
	if len(v.leases) > maxLeases {
		v.dropLease()
	}
}

// maxLeases bounds the leases that are remembered of one session: anyone may
// publish under any key. The ones that end last are kept, and those decide.
const maxLeases = 128

func (v *View) dropLease() {
	first := 0
	for i, l := range v.leases {
		if l.Until.Before(v.leases[first].Until) {
			first = i
		}
	}
	v.leases = slices.Delete(v.leases, first, first+1)
}

// forget drops the leases that have run out.
func (v *View) forget(p Policy, now time.Time) {
	v.leases = slices.DeleteFunc(v.leases, func(l Lease) bool {
		if l.Until.After(now) {
			return false
		}
		if p.hears(l.kind(), l.What) {
			v.until = latest(v.until, l.Until)
			if l.keeps(p) {
				v.leased = latest(v.leased, l.Until)
			}
		}
		return true
	})
}

// keeps reports whether a lease is more than an answer, and than the word that it is over.
func (l Lease) keeps(p Policy) bool {
	return l.What != answer && l.Until.After(l.At) && p.hears(l.kind(), l.What)
}

func (l Lease) kind() schemas.Kind {
	kind, _, _ := strings.Cut(l.What, ".")
	return schemas.Kind(kind)
}

// Apart gives a view that shares nothing with v which deciding may change.
func (v *View) Apart() View {
	out := *v
	out.leases = slices.Clone(v.leases)
	return out
}

// QuietSince is when the session was last in use, as far as was heard: when the last
// activity that counted came, or the last lease ended; when it was made, if nothing was
// heard. A lease that lives gives its end, which is to come.
func (v *View) QuietSince(p Policy) time.Time {
	out := latest(v.Record.Created, v.last.At, v.until)
	for _, l := range v.leases {
		if p.hears(l.kind(), l.What) {
			out = latest(out, l.Until)
		}
	}
	return out
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
