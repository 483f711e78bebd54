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

	known Known
}

// Known is what a View knows besides the record: what a reader that keeps very many of
// them stores in a form of its own.
type Known struct {
	Since  time.Time // when its state was seen to change
	Last   Mark      // that counted
	Waking Mark      // that wakes
	Leases []Lease   // one of each kind.key, also those that the policy ignores
	Seq    uint64    // the highest heard

	Until   time.Time // the latest end of a lease that counted and was forgotten
	Leased  time.Time // the same, of leases that were no answers
	Noticed time.Time // when it was said that a suspend is near

	Commands uint8 // that it was given, as far as its reader heard; or that were recorded, if those are more
}

// Known gives what the view knows, not a copy: setting it is to restore a view.
func (v *View) Known() *Known { return &v.known }

// Mark is one piece of activity.
type Mark struct {
	Seq  uint64
	At   time.Time
	What string // "input", "busy.cpu"
}

// Lease is a live lease.
type Lease struct {
	Mark
	From   string // as a Source's: whose it is
	Until  time.Time
	Reason string
}

// See takes in a revision of the record, seen at now.
func (v *View) See(r schemas.SessionRecord, now time.Time) {
	if r.UID != v.Record.UID {
		// A new session. What was heard of it may have come before its record.
		v.known.Since, v.known.Until, v.known.Leased = time.Time{}, time.Time{}, time.Time{}
		if v.Record.UID != "" || v.known.Seq <= r.Born { // a reader that comes later hears first
			v.known.Commands = 0
		}
		for _, m := range []*Mark{&v.known.Last, &v.known.Waking} {
			if m.Seq <= r.Born {
				*m = Mark{}
			}
		}
	}
	v.known.Leases = slices.DeleteFunc(v.known.Leases, func(l Lease) bool { return l.Seq <= r.Born })
	// What was seen to happen is counted from then, by this host's clock; what its record
	// says of that is for readers that came later.
	lived := r.UID == v.Record.UID && (r.State != v.Record.State || v.Record.Since.IsZero())
	if r.State != v.Record.State || v.known.Since.IsZero() || started(&v.Record, &r) {
		v.known.Since, v.known.Noticed = now, time.Time{}
	}
	if v.Record = r; lived {
		v.Record.Since = time.Time{}
	}
}

// started reports whether a session that was recorded to run was now started by its host:
// until then it could not be used.
func started(before, now *schemas.SessionRecord) bool {
	return before.UID == now.UID && before.State == schemas.Running && now.State == schemas.Running &&
		before.Op != nil && before.Op.Kind == schemas.OpBegin && now.Op == nil
}

// Last is the last activity that counted, the zero Mark if none was heard.
func (v *View) Last() Mark { return v.known.Last }

// Seq is the highest sequence of the activity stream that the view has heard
// for its session.
func (v *View) Seq() uint64 { return v.known.Seq }

// Hear takes in one message. Messages may come again, and out of order for
// different kinds; an older word of a kind never undoes a newer.
func (v *View) Hear(m Message, p Policy) {
	if m.Seq <= v.Record.Born {
		return // it spoke of an earlier session of that name
	}
	if command := m.Source.Kind == schemas.KindExec || m.Source.Kind == schemas.KindInput; command && m.Source.From == "" && m.Seq > v.known.Seq && v.known.Commands < math.MaxUint8 {
		v.known.Commands++
	}
	if m.Source.Kind == schemas.KindOutput && m.Source.Key == schemas.KeyCommands {
		if m.Source.From == "" {
			v.known.Commands = max(v.known.Commands, uint8(min(max(m.Activity.Commands, 0), math.MaxUint8)))
		}
		v.known.Seq = max(v.known.Seq, m.Seq)
		return // it is a number, and no use
	}
	v.known.Seq = max(v.known.Seq, m.Seq)
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
	counts := e.Counts && (!e.Lease || busy) || busy && m.Activity.Released && v.living(what, m.Source.From, m.At)
	if e.Lease {
		v.lease(mark, m, p)
	}
	// What puts the suspend off ends the question, also a lease that only says that someone is there again:
	// else an answer would count for more without it.
	keeps := e.Lease && what != answer && !m.Activity.Released && p.hears(m.Source.Kind, what)
	if keeps || e.Counts && (what != answer || v.putsOff(p)) {
		v.known.Noticed = time.Time{} // that was the answer, or its users are gone
	}
	if counts && m.Seq > v.known.Last.Seq {
		v.known.Last = mark
	}
	if e.Wakes && m.Seq > v.known.Waking.Seq {
		v.known.Waking = mark
	}
}

// answer is a hold that answers a question.
const answer = string(schemas.KindHold) + "." + schemas.AnswerKey

// putsOff reports whether an answer may still put off what was said last. It doesn't go by
// how long the answer itself lasts: else activity, after which the question is asked later,
// could have an answer come to nothing that was one without it.
func (v *View) putsOff(p Policy) bool {
	return p.Defer == 0 || v.deferrable(p).After(v.known.Noticed.Add(p.lead()))
}

// deferrable is until when answers can put a suspend off. It is counted from when the
// session is suspended without an answer, which all activity that counts and every lease
// but an answer put off: so no word of anyone makes a suspend come earlier.
func (v *View) deferrable(p Policy) time.Time {
	ends := v.known.Leased
	for _, l := range v.known.Leases {
		if l.keeps(p) {
			ends = latest(ends, l.Until)
		}
	}
	return latest(v.IdleSince().Add(max(p.Grace, p.lead())), ends.Add(p.lead())).Add(p.Deferrals)
}

// Notified takes note that it was said at now that a suspend is near.
func (v *View) Notified(now time.Time) { v.known.Noticed = now }

// living reports whether a lease lives at a time.
func (v *View) living(what, from string, now time.Time) bool {
	return slices.ContainsFunc(v.known.Leases, func(l Lease) bool { return l.What == what && l.From == from && l.Until.After(now) })
}

func (v *View) lease(mark Mark, m Message, p Policy) {
	from := m.Source.From
	at := slices.IndexFunc(v.known.Leases, func(l Lease) bool { return l.What == mark.What && l.From == from })
	if at >= 0 && v.known.Leases[at].Seq >= m.Seq { // heard before: what has ended it since stays
		return
	}
	ttl := time.Duration(m.Activity.TTL)
	if ttl <= 0 {
		ttl = schemas.DefaultLease
	}
	l := Lease{Mark: mark, From: from, Until: m.At.Add(min(ttl, schemas.MaxLease)), Reason: m.Activity.Reason}
	if m.Activity.Released {
		l.Until = m.At
		v.release(l, p)
	}
	if at >= 0 {
		v.known.Leases[at] = l
		return
	}
	v.known.Leases = append(v.known.Leases, l)
	v.bound(from, p)
}

// release takes note that a lease ends which was to last longer. A word with credentials ends the leases of
// its name that were placed without, too; a word without ends no lease but its publisher's.
func (v *View) release(end Lease, p Policy) {
	for i := range v.known.Leases {
		l := &v.known.Leases[i]
		if l.What != end.What || l.From != end.From && end.From != "" || l.Seq > end.Seq || !l.Until.After(end.At) {
			continue
		}
		if l.keeps(p) {
			v.known.Leased = latest(v.known.Leased, end.At)
		}
		l.Until = end.At
	}
}

// The leases that are remembered of one session: so many by publishers with credentials, of which those that end
// last are kept and decide, and so many by others, since anyone may publish under any key.
const (
	maxLeases = 128
	maxOthers = 64
)

// others is the key of the leases without credentials that aren't remembered one by one, and whose they
// are: no publisher's, so that none of these can end them.
const (
	others     = "others"
	fromOthers = "~"
)

// bound forgets a lease where there are too many. Of those without credentials, that one's end stays: else who
// publishes many and then ends them would have ended the lease of another.
func (v *View) bound(from string, p Policy) {
	first, n := -1, 0
	for i, l := range v.known.Leases {
		if (l.From == "") != (from == "") || l.From == fromOthers {
			continue
		}
		if n++; first < 0 || l.Until.Before(v.known.Leases[first].Until) {
			first = i
		}
	}
	if most := map[bool]int{true: maxLeases, false: maxOthers}[from == ""]; n <= most {
		return
	}
	l := v.known.Leases[first]
	v.known.Leases = slices.Delete(v.known.Leases, first, first+1)
	if from == "" || !p.hears(l.kind(), l.What) {
		return
	}
	if l.From, l.Reason = fromOthers, "several without credentials"; l.What != answer {
		l.What = string(l.kind()) + "." + others
	}
	at := slices.IndexFunc(v.known.Leases, func(o Lease) bool { return o.What == l.What && o.From == fromOthers })
	if at < 0 {
		v.known.Leases = append(v.known.Leases, l)
		return
	}
	o := &v.known.Leases[at]
	o.Seq, o.At, o.Until = max(o.Seq, l.Seq), latest(o.At, l.At), latest(o.Until, l.Until)
}

// Forget drops the leases that have run out. It changes no decision under the same policy:
// a reader that keeps the view calls it, so that ended leases don't pile up.
func (v *View) Forget(p Policy, now time.Time) {
	v.known.Leases = slices.DeleteFunc(v.known.Leases, func(l Lease) bool {
		if l.Until.After(now) {
			return false
		}
		if p.hears(l.kind(), l.What) {
			v.known.Until = latest(v.known.Until, l.Until)
			if l.keeps(p) {
				v.known.Leased = latest(v.known.Leased, l.Until)
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

// QuietSince is when the session was last in use, as far as was heard: when the last
// activity that counted came, or the last lease ended; when it was made, if nothing was
// heard. A lease that lives gives its end, which is to come.
func (v *View) QuietSince(p Policy) time.Time {
	out := latest(v.Record.Created, v.known.Last.At, v.known.Until)
	for _, l := range v.known.Leases {
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
	return latest(v.known.Last.At, v.known.Since, v.HeardSince)
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
