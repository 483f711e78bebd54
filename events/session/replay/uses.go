package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Times is what is known of how a session was used.
type Times struct {
	Uses []schemas.Use
	// Asked are the times at which a client asked for it to run, which wakes it under
	// every policy.
	Asked []time.Time
	// Unknown are times of which nothing is known; they count as use.
	Unknown []schemas.Use
}

// again is how often a use is taken to have been heard again that wakes but doesn't
// count: as often as one that goes on is heard at least.
const again = 20 * time.Second

// FromUses puts a life together from the times in which a session was used: p says what
// each of them does, and is then to be lived under AsTold(p).
func FromUses(r schemas.SessionRecord, from, to time.Time, t Times, p session.Policy) Life {
	l := newLife(r, from, to)
	for _, u := range merged(t.Uses) {
		l.used(u, p)
	}
	for _, at := range t.Asked {
		l.say(at, schemas.KindInput, "", 0)
	}
	for _, u := range t.Unknown {
		l.keep(time.UnixMilli(u.From), time.UnixMilli(u.To), schemas.KindInput, "unknown")
	}
	slices.SortStableFunc(l.Said, func(a, b session.Message) int { return a.At.Compare(b.At) })
	l.Said = slices.DeleteFunc(l.Said, func(m session.Message) bool { return m.At.Before(from) || m.At.After(to) })
	l.number()
	return l
}

// AsTold gives a policy for lives from uses: what counted or woke under p is said by a
// kind of which that is known.
func AsTold(p session.Policy) session.Policy {
	counts := slices.DeleteFunc(schemas.Kinds(), func(k schemas.Kind) bool { return k == schemas.KindOutput })
	return p.With(schemas.Policy{Counts: counts, Wakes: []schemas.Kind{schemas.KindInput, schemas.KindOutput}, Ignore: []string{}})
}

// merged puts the parts of uses together, of which several schedulers may have written
// some.
func merged(uses []schemas.Use) (out []schemas.Use) {
	uses = slices.Clone(uses)
	for i := range uses {
		uses[i].To = max(uses[i].To, uses[i].From) // which is left out
	}
	slices.SortFunc(uses, func(a, b schemas.Use) int {
		return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.From, b.From))
	})
	for _, u := range uses {
		if n := len(out) - 1; n >= 0 && out[n].What == u.What && u.From <= out[n].To {
			if u.To >= out[n].To {
				out[n].To, out[n].Last = u.To, u.Last
			}
			continue
		}
		out = append(out, u)
	}
	return out
}

// used says one use as a policy takes it.
func (l *Life) used(u schemas.Use, p session.Policy) {
	kind, key, _ := strings.Cut(u.What, ".")
	src := schemas.Source{Kind: schemas.Kind(kind), Key: key}
	from, to := time.UnixMilli(u.From), time.UnixMilli(u.To)
	switch e := p.EffectOf(src, schemas.Activity{}); {
	case e.Lease && e.Counts:
		l.leased(src, from, to, u.Last)
	case e.Counts && e.Wakes:
		l.keep(from, to, schemas.KindInput, u.What)
	case e.Counts:
		l.keep(from, to, schemas.KindHeartbeat, u.What)
	case e.Wakes:
		for at := from; at.Before(to); at = at.Add(again) {
			l.say(at, schemas.KindOutput, "", 0)
		}
		l.say(to, schemas.KindOutput, "", 0)
	}
}

// keep says a use that goes on from one time to another: a lease stands for what was said
// between.
func (l *Life) keep(from, to time.Time, k schemas.Kind, what string) {
	if from.Before(l.From) && to.After(l.From) {
		from = l.From // it went on when this life began
	}
	l.say(from, k, "", 0)
	if to.After(from) {
		l.say(from, schemas.KindHold, used+"-"+what, to.Sub(from))
		l.say(to, k, "", 0)
	}
}

// leased says a lease. The grace after a busy one begins with its end, or where no message
// ended it with its last word.
func (l *Life) leased(src schemas.Source, from, to time.Time, last int64) {
	if from.Before(l.From) && to.After(l.From) {
		from = l.From
	}
	if !to.After(from) {
		return
	}
	busy := src.Kind == schemas.KindBusy
	if !busy {
		l.say(from, src.Kind, src.Key, to.Sub(from))
		return
	}
	l.say(from, schemas.KindHold, "busy-"+src.Key, to.Sub(from))
	l.say(from, schemas.KindHeartbeat, "", 0)
	switch at := time.UnixMilli(last); {
	case last == 0:
		l.say(to, schemas.KindHeartbeat, "", 0)
	case at.After(from) && at.Before(to):
		l.say(at, schemas.KindHeartbeat, "", 0)
	}
}

func (l *Life) say(at time.Time, k schemas.Kind, key string, ttl time.Duration) {
	l.Said = append(l.Said, session.Message{Source: schemas.Source{Kind: k, Key: key}, Activity: schemas.Activity{TTL: schemas.Duration(ttl)}, At: at})
}
