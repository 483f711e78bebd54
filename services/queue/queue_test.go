package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// record is a session that waits, the n-th that came.
func record(n int, change ...func(*schemas.SessionRecord)) schemas.SessionRecord {
	id := fmt.Sprintf("s%03d", n)
	r := schemas.SessionRecord{
		UID: schemas.UID(id), Tenant: "acme", Session: schemas.SessionID(id), State: schemas.Starting, Driver: "criu", Created: start.Add(time.Duration(n) * time.Second),
		Op: &schemas.Op{ID: "o", Kind: schemas.OpStart, Unplaced: true},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func of(all ...schemas.SessionRecord) []Waiting { return Of(slices.Values(all)) }

func labelled(k, v string) func(*schemas.SessionRecord) {
	return func(r *schemas.SessionRecord) { r.Placement = &schemas.Placement{Labels: map[string]string{k: v}} }
}

func only(h schemas.HostID) func(*schemas.SessionRecord) {
	return func(r *schemas.SessionRecord) { r.Op.Only = h }
}

func names(all []Waiting) (out []schemas.SessionID) {
	for _, w := range all {
		out = append(out, w.Name.Session)
	}
	return out
}

// Those that came first are in front. What isn't queued isn't among them.
func TestOf(t *testing.T) {
	running, placed, removed := record(7), record(8), record(9)
	running.State = schemas.Running
	placed.Host = "h"
	removed.State = schemas.Deleted
	if got, want := names(of(record(3), running, record(1), placed, record(2), removed)), []schemas.SessionID{"s001", "s002", "s003"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A place is among those that need the same.
func TestPlaces(t *testing.T) {
	got := Places(of(record(1), record(2, only("a")), record(3), record(4, labelled("disk", "ssd")), record(5, only("a")), record(6)))
	for id, want := range map[schemas.UID]string{"s001": "1st of 3", "s002": "1st of 2", "s003": "2nd of 3", "s004": "1st of 1", "s005": "2nd of 2", "s006": "3rd of 3"} {
		if got := got[id].String(); got != want+", waiting for room" {
			t.Errorf("%s: %s, want the %s", id, got, want)
		}
	}
}

// round carries a round out: what hosts takes decides whether one is placed.
func round(all []Waiting, tried map[schemas.UID]time.Time, now time.Time, takes func(Waiting) bool) (placed, refused []Waiting, r Round) {
	for {
		w, ok := r.Decide(all, tried, now)
		if !ok {
			return placed, refused, r
		}
		tried[w.UID] = now
		is := takes(w)
		r.Tell(w, is)
		if is {
			placed = append(placed, w)
			all = slices.DeleteFunc(slices.Clone(all), func(o Waiting) bool { return o.UID == w.UID })
		} else {
			refused = append(refused, w)
		}
	}
}

// Once one of a kind finds no host the later ones of it aren't tried; those of others are.
func TestOrderIsKeptOfEachKind(t *testing.T) {
	all := of(record(1, only("a")), record(2), record(3, only("a")), record(4), record(5))
	placed, refused, r := round(all, map[schemas.UID]time.Time{}, start, func(w Waiting) bool { return w.UID != "s001" && w.UID != "s004" })
	if got := names(placed); !slices.Equal(got, []schemas.SessionID{"s002"}) {
		t.Errorf("placed: %v", got)
	}
	if got := names(refused); !slices.Equal(got, []schemas.SessionID{"s001", "s004"}) {
		t.Errorf("refused: %v", got)
	}
	if least, most := r.Rest(); least != Again || most != Again {
		t.Errorf("after a placement it rests for %s to %s", least, most)
	}
	_, _, r = round(all, map[schemas.UID]time.Time{}, start, func(Waiting) bool { return false })
	if least, most := r.Rest(); least != Calm || most != Slow {
		t.Errorf("after none it rests for %s to %s", least, most)
	}
}

// One that was tried a moment ago isn't tried, and isn't overtaken by those of its kind.
func TestSameIsNotTriedAtOnce(t *testing.T) {
	all := of(record(1), record(2), record(3, only("a")))
	tried := map[schemas.UID]time.Time{"s001": start}
	every := func(Waiting) bool { return true }
	if placed, _, _ := round(all, tried, start.Add(Again-1), every); !slices.Equal(names(placed), []schemas.SessionID{"s003"}) {
		t.Errorf("placed: %v", names(placed))
	}
	if placed, _, _ := round(all[:2], tried, start.Add(Again), every); !slices.Equal(names(placed), []schemas.SessionID{"s001", "s002"}) {
		t.Errorf("placed later: %v", names(placed))
	}
}

// Of those with a placement one comes to a host in a round: where the next may go depends on it.
func TestOneWithAPlacementAtATime(t *testing.T) {
	all := of(record(1, labelled("a", "b")), record(2, labelled("a", "b")), record(3))
	placed, _, _ := round(all, map[schemas.UID]time.Time{}, start, func(Waiting) bool { return true })
	if !slices.Equal(names(placed), []schemas.SessionID{"s001", "s003"}) {
		t.Errorf("placed: %v", names(placed))
	}
}

// With room that comes and goes, every session gets a host once, in the order of its kind, and none is
// tried twice within Again.
func TestAllComeToAHostInOrder(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		kinds := []func(*schemas.SessionRecord){func(*schemas.SessionRecord) {}, only("a"), only("b"), labelled("disk", "ssd")}
		var all []Waiting
		for i := range 1 + rnd.IntN(20) {
			all = append(all, of(record(i, kinds[rnd.IntN(len(kinds))]))...)
		}
		tried, last, now := map[schemas.UID]time.Time{}, map[Kind]time.Time{}, start
		for rounds := 0; len(all) > 0; rounds++ {
			if rounds > 10_000 {
				t.Fatalf("seed %d: %d are never placed", seed, len(all))
			}
			before := len(all)
			placed, refused, r := round(all, tried, now, func(w Waiting) bool { return rnd.IntN(3) == 0 })
			for _, w := range placed {
				if w.Came.Before(last[w.Kind]) {
					t.Fatalf("seed %d: %s was overtaken", seed, w.Name)
				}
				last[w.Kind] = w.Came
				all = slices.DeleteFunc(all, func(o Waiting) bool { return o.UID == w.UID })
			}
			if len(all) != before-len(placed) {
				t.Fatalf("seed %d: one was placed twice", seed)
			}
			seen := map[Kind]bool{}
			for _, w := range refused {
				if seen[w.Kind] {
					t.Fatalf("seed %d: a second one of a kind was tried that is full", seed)
				}
				seen[w.Kind] = true
			}
			least, _ := r.Rest()
			now = now.Add(least)
		}
	}
}
