package lease

import (
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// What an observer makes of a lease of 10 s that it looks at every second.
func TestJudge(t *testing.T) {
	const gap = 3 * time.Second
	at := func(s float64) Clock { return Clock(s * float64(time.Second)) }
	held := func(rev uint64) Versioned {
		return Versioned{schemas.HostLease{TermMS: 10_000, State: schemas.LeaseHeld}, rev}
	}
	type look struct {
		at   Clock
		v    Versioned
		want Verdict
	}
	ended := held(8)
	ended.State = schemas.LeaseExpired
	every := func(from, to float64, v Versioned, want Verdict) (out []look) {
		for s := from; s <= to; s++ {
			out = append(out, look{at(s), v, want})
		}
		return out
	}
	for name, looks := range map[string][]look{
		"renewed":             append(every(1, 12, held(1), Live), every(13, 24, held(2), Live)...),
		"stood still":         append(every(1, 13, held(1), Live), look{at(13.5), held(1), RunOut}),
		"not before a margin": append(every(1, 11, held(1), Live), look{at(13.4), held(1), Live}),
		"deaf for a while":    append(every(1, 9, held(1), Live), append(every(20, 32, held(1), Live), look{at(33), held(1), RunOut})...),
		"ended":               {{at(1), ended, Expired}},
	} {
		var s Seen
		for _, l := range looks {
			var got Verdict
			if s, got = Judge(s, l.v, l.at, gap); got != l.want {
				t.Errorf("%s: at %v: %s, want %s", name, time.Duration(l.at), got, l.want)
			}
		}
	}
}

// A long term costs a takeover no more than three seconds on top of it.
func TestMargin(t *testing.T) {
	for _, c := range []struct{ term, want time.Duration }{
		{time.Second, 250 * time.Millisecond}, {12 * time.Second, 3 * time.Second}, {DefaultTerm, 3 * time.Second}, {time.Hour, 3 * time.Second},
	} {
		v := Versioned{schemas.HostLease{TermMS: c.term.Milliseconds(), State: schemas.LeaseHeld}, 1}
		s, _ := Judge(Seen{}, v, 0, 2*c.term)
		end := Clock(c.term + c.want)
		if _, got := Judge(s, v, end-1, 2*c.term); got != Live {
			t.Errorf("a lease of %v is %s just before %v have gone by", c.term, got, c.term+c.want)
		}
		if _, got := Judge(s, v, end, 2*c.term); got != RunOut {
			t.Errorf("a lease of %v is %s when %v have gone by", c.term, got, c.term+c.want)
		}
	}
}

func TestFenceComesBeforeTheEnd(t *testing.T) {
	for _, term := range []time.Duration{time.Second, DefaultTerm, time.Hour} {
		if renewEvery(term) >= FenceAfter(term) || FenceAfter(term) >= term {
			t.Errorf("term %v: renewed every %v, fenced after %v", term, renewEvery(term), FenceAfter(term))
		}
	}
}
