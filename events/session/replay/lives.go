package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// used is the key of the lease that stands for use of which no more is known.
const used = "used"

// FromSilences puts a life together from the silences of a session: all other time it was in
// use, and each use began with something that wakes. The last silence may still go on; it
// has no What. The record says class, uid and the rest that deciding needs.
func FromSilences(r schemas.SessionRecord, from, to time.Time, silences []schemas.Silence) Life {
	l := newLife(r, from, to)
	slices.SortFunc(silences, func(a, b schemas.Silence) int { return cmp.Compare(a.From, b.From) })
	at := from
	for _, s := range silences {
		quiet, woken := time.UnixMilli(s.From), time.UnixMilli(s.To)
		if !woken.After(at) || !quiet.Before(to) {
			continue
		}
		l.use(at, quiet, last(s))
		at = woken
		if s.What == "" {
			at = to // it goes on
		}
	}
	if at.Before(to) {
		l.use(at, to, to)
	}
	l.number()
	return l
}

// newLife begins a life that runs: the record says how it ended.
func newLife(r schemas.SessionRecord, from, to time.Time) Life {
	r.State, r.Since, r.Boot = schemas.Running, from, schemas.BootClean
	r.Born, r.Seq, r.Op, r.Failure = 0, 0, nil, nil
	return Life{Record: r, From: from, To: to}
}

// number gives what was said its sequences.
func (l *Life) number() {
	for i := range l.Said {
		l.Said[i].Seq, l.Said[i].Source.Name = uint64(i+1), l.Record.Name()
	}
}

// last is the last activity before a silence: later than that only a lease lived.
func last(s schemas.Silence) time.Time {
	if s.Used > 0 {
		return time.UnixMilli(s.Used)
	}
	return time.UnixMilli(s.From)
}

// use adds a time in which the session was used.
func (l *Life) use(from, to, active time.Time) {
	say := func(at time.Time, k schemas.Kind, key string, a schemas.Activity) {
		l.Said = append(l.Said, session.Message{Source: schemas.Source{Kind: k, Key: key}, Activity: a, At: at})
	}
	if !to.After(from) { // it was quiet already; or used for a moment
		if !from.Equal(l.From) {
			say(from, schemas.KindInput, "", schemas.Activity{})
		}
		return
	}
	say(from, schemas.KindInput, "", schemas.Activity{})
	say(from, schemas.KindHold, used, schemas.Activity{TTL: schemas.Duration(to.Sub(from))})
	if active.After(from) && !active.After(to) {
		say(active, schemas.KindInput, "", schemas.Activity{})
	}
}

// AsKnown gives a policy for lives of which it isn't known what kinds of activity they
// had: use is use.
func AsKnown(p session.Policy) session.Policy {
	return p.With(schemas.Policy{Counts: schemas.Kinds(), Wakes: []schemas.Kind{schemas.KindInput}, Ignore: []string{}})
}
