package api

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/schemas"
)

const (
	simulatedLives = 40 // sessions in one answer
	simulatedNaps  = 60 // of each of them, under each policy
)

// simulatedLife says what one session would have done under two policies.
func (p *past) simulatedLife(l *lived, from, to time.Time, now, would []replay.Nap, costs replay.Costs) schemas.SimulatedLife {
	naps := func(all []replay.Nap) schemas.SimulatedNaps {
		var sum schemas.Outcome
		replay.Sum(&sum, all, costs, l.bytes)
		out := schemas.SimulatedNaps{SavedGiBh: sum.SavedGiBh, Wrong: sum.Wrong, Naps: []schemas.SimulatedNap{}}
		if n := len(all) - simulatedNaps; n > 0 {
			out.Omitted, all = n, all[n:]
		}
		for _, n := range all {
			out.Naps = append(out.Naps, schemas.SimulatedNap{From: second(n.From), To: second(n.To), Woken: n.Woken, Wrong: n.Wrong()})
		}
		return out
	}
	return schemas.SimulatedLife{Name: l.record.Name().String(), From: second(from), To: second(to), Now: naps(now), Would: naps(would)}
}

func second(at time.Time) time.Time { return at.UTC().Round(time.Second) }

// mostDifferent gives the lives for which two policies differ most, and how many others there are.
func mostDifferent(all []schemas.SimulatedLife) (most []schemas.SimulatedLife, omitted int) {
	asleep := func(n schemas.SimulatedNaps) (sum time.Duration) {
		for _, one := range n.Naps {
			sum += one.To.Sub(one.From)
		}
		return sum
	}
	differ := func(l schemas.SimulatedLife) float64 { return math.Abs((asleep(l.Would) - asleep(l.Now)).Seconds()) }
	slices.SortFunc(all, func(a, b schemas.SimulatedLife) int {
		return cmp.Or(cmp.Compare(differ(b), differ(a)), cmp.Compare(asleep(b.Would), asleep(a.Would)), cmp.Compare(a.Name, b.Name))
	})
	if len(all) > simulatedLives {
		all, omitted = all[:simulatedLives], len(all)-simulatedLives
	}
	return all, omitted
}
