package turns

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/schemas"
)

func TestNext(t *testing.T) {
	wake := func(n int64) Request { return Request{Wake, n} }
	idle := func(n int64) Request { return Request{Idle, n} }
	for name, c := range map[string]struct {
		limits         Limits
		going, waiting []Request
		want           int
	}{
		"nothing waits":                     {Limits{2, 10}, nil, nil, -1},
		"the first":                         {Limits{2, 10}, nil, []Request{idle(1), idle(1)}, 0},
		"a wake before captures":            {Limits{2, 10}, nil, []Request{idle(1), {Asked, 1}, wake(1)}, 2},
		"asked for before idle":             {Limits{2, 10}, nil, []Request{idle(1), {Asked, 1}}, 1},
		"full":                              {Limits{2, 10}, []Request{wake(1), wake(1)}, []Request{wake(1)}, -1},
		"captures leave a place":            {Limits{2, 10}, []Request{idle(1)}, []Request{idle(1)}, -1},
		"which a wake takes":                {Limits{2, 10}, []Request{idle(1)}, []Request{idle(1), wake(1)}, 1},
		"one at a time":                     {Limits{1, 10}, nil, []Request{idle(1)}, 0},
		"it doesn't fit":                    {Limits{9, 10}, []Request{wake(6)}, []Request{wake(5)}, -1},
		"it fits":                           {Limits{9, 10}, []Request{wake(6)}, []Request{wake(4)}, 0},
		"a small one doesn't overtake":      {Limits{9, 10}, []Request{wake(6)}, []Request{wake(5), wake(1)}, -1},
		"larger than the budget goes alone": {Limits{9, 10}, nil, []Request{wake(50)}, 0},
		"and waits until it is alone":       {Limits{9, 10}, []Request{idle(1)}, []Request{wake(50)}, -1},
		"unbounded":                         {Limits{}, []Request{idle(50), idle(50)}, []Request{idle(50)}, 0},
	} {
		if got := Next(c.limits, c.going, c.waiting); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// All that comes gets a turn if all that go on end, and the limits hold meanwhile.
func TestAllGetATurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{rapid.IntRange(1, 4).Draw(t, "count"), rapid.Int64Range(1, 100).Draw(t, "bytes")}
		request := rapid.Custom(func(t *rapid.T) Request {
			return Request{Class(rapid.IntRange(0, 2).Draw(t, "class")), rapid.Int64Range(0, 150).Draw(t, "bytes")}
		})
		waiting := rapid.SliceOfN(request, 0, 20).Draw(t, "waiting")
		var going []Request
		for len(waiting) > 0 {
			i := Next(l, going, waiting)
			if i < 0 {
				if len(going) == 0 {
					t.Fatalf("nothing goes on, and nothing may: %v", waiting)
				}
				going = going[1:]
				continue
			}
			going, waiting = append(going, waiting[i]), append(waiting[:i:i], waiting[i+1:]...)
			sum := int64(0)
			for _, r := range going {
				sum += r.Bytes
			}
			if len(going) > l.Count || sum > l.Bytes && len(going) > 1 {
				t.Fatalf("%v go on at a time: limits %v", going, l)
			}
		}
	})
}

func TestQueueWakesWhoMayGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Limits{Count: 1})
		done, err := q.Take(t.Context(), "", Request{Class: Idle}, func(schemas.QueuePlace) { t.Error("the first one is queued") })
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []Class
		places := map[Class]int{}
		for _, c := range []Class{Idle, Asked, Wake} {
			go func() {
				done, err := q.Take(t.Context(), "", Request{Class: c}, func(p schemas.QueuePlace) { places[c] = p.Place })
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, c)
				mu.Unlock()
				done()
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancelCause(t.Context())
		given := errors.New("given up")
		cancel(given)
		if _, err := q.Take(gone, "", Request{Class: Wake}, nil); err != given {
			t.Errorf("who gave up got %v", err)
		}
		done()
		done() // once more does nothing
		synctest.Wait()
		if len(order) != 3 || order[0] != Wake || order[1] != Asked || order[2] != Idle {
			t.Errorf("they went in the order %v", order)
		}
		if places[Idle] != 1 || places[Asked] != 1 || places[Wake] != 1 {
			t.Errorf("each was the first when it came, not %v", places)
		}
		if going, waiting := q.Counts(); going != 0 || waiting != 0 {
			t.Errorf("%d go on and %d wait at the end", going, waiting)
		}
	})
}

// Under the race detector: many come and go, and some give up.
func TestQueueManyAtOnce(t *testing.T) {
	q := NewQueue(Limits{Count: 3, Bytes: 10})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%7 == 0 {
				go cancel()
			}
			defer cancel()
			done, err := q.Take(ctx, "", Request{Class(i % 3), int64(i % 15)}, nil)
			if err != nil {
				return
			}
			if going, _ := q.Counts(); going > 3 {
				t.Errorf("%d go on at a time", going)
			}
			done()
		})
	}
	wg.Wait()
	if going, waiting := q.Counts(); going != 0 || waiting != 0 {
		t.Errorf("%d go on and %d wait at the end", going, waiting)
	}
}

// Each that waits has a place in the order in which they go, and the limit that the first of
// them waits for.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Limits{Count: 3, Bytes: 1 << 30})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		take := func(of schemas.UID, r Request) {
			go func() {
				if done, err := q.Take(ctx, of, r, nil); err == nil {
					context.AfterFunc(ctx, done)
				}
			}()
			synctest.Wait()
		}
		want := func(when string, all map[schemas.UID]schemas.QueuePlace) {
			t.Helper()
			if got := q.Places(); !maps.Equal(got, all) {
				t.Errorf("%s: %v, want %v", when, got, all)
			}
		}
		done, err := q.Take(ctx, "a", Request{Asked, 700 << 20}, func(p schemas.QueuePlace) { t.Errorf("the first one is queued: %v", p) })
		if err != nil {
			t.Fatal(err)
		}
		want("none waits", map[schemas.UID]schemas.QueuePlace{})
		take("b", Request{Asked, 1 << 20})
		take("c", Request{Idle, 1 << 20})
		want("a place is left to wakes", map[schemas.UID]schemas.QueuePlace{"c": {Place: 1, Of: 1, Limit: "count=3"}})
		take("d", Request{Asked, 1 << 20})
		want("what was asked for goes first", map[schemas.UID]schemas.QueuePlace{
			"d": {Place: 1, Of: 2, Limit: "count=3"}, "c": {Place: 2, Of: 2, Limit: "count=3"}})
		take("e", Request{Wake, 700 << 20})
		want("a large wake", map[schemas.UID]schemas.QueuePlace{
			"e": {Place: 1, Of: 3, Limit: "memory=1G"}, "d": {Place: 2, Of: 3, Limit: "memory=1G"}, "c": {Place: 3, Of: 3, Limit: "memory=1G"}})
		done()
		synctest.Wait()
		want("with room for the wake", map[schemas.UID]schemas.QueuePlace{
			"d": {Place: 1, Of: 2, Limit: "count=3"}, "c": {Place: 2, Of: 2, Limit: "count=3"}})
		cancel()
		synctest.Wait()
		want("all are gone", map[schemas.UID]schemas.QueuePlace{})
	})
}
