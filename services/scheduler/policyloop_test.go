package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// instant is a scheduler's world in which workers take no time.
type instant struct {
	*statekvtest.Fake
	said chan stream.Heard
	from time.Time

	mu      sync.Mutex
	naps    map[schemas.Name][]replay.Nap
	events  map[schemas.Name]int
	refuses int // so many events aren't taken
	pages   []schemas.UseHistory
	open    []schemas.Silence // at the end
	going   []schemas.Use
}

func newInstant() *instant {
	return &instant{
		Fake: statekvtest.New(), said: make(chan stream.Heard), from: time.Now(),
		naps: map[schemas.Name][]replay.Nap{}, events: map[schemas.Name]int{},
	}
}

// add makes a session that runs, on a host of its own.
func (w *instant) add(n schemas.Name) {
	w.Put(schemas.SessionRecord{UID: schemas.UID(n.Session), Tenant: n.Tenant, Session: n.Session, State: schemas.Running, Class: "web", Boot: "clean",
		Host: schemas.HostID(n.Session), Since: w.from, Created: w.from})
}

// records gives each session's, as it is at the end.
func (w *instant) records(t *testing.T) map[schemas.Name]schemas.SessionRecord {
	t.Helper()
	list, err := w.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[schemas.Name]schemas.SessionRecord{}
	for _, v := range list {
		all[v.Name()] = v.SessionRecord
	}
	return all
}

// Swap makes the transition, and what a worker makes of it.
func (w *instant) Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.Fake.Swap(ctx, prev, t)
	if err != nil {
		return v, err
	}
	n, next := v.Name(), v.SessionRecord
	naps := w.naps[n]
	if t.Type == schemas.TSuspend {
		w.naps[n] = append(naps, replay.Nap{From: time.Now(), Expired: t.Set.Op.Trigger == "expired"})
		next.State, next.Op = schemas.Suspended, nil
	} else {
		naps[len(naps)-1].To, naps[len(naps)-1].Woken = time.Now(), true
		next.State, next.Op, next.Boot = schemas.Running, nil, "resume"
	}
	next.Since = time.Now()
	w.Put(next)
	return v, nil
}

func (w *instant) Activity(ctx context.Context, fn func(stream.Heard)) error {
	fn(stream.Heard{CaughtUp: true})
	for {
		select {
		case h := <-w.said:
			fn(h)
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *instant) Command(context.Context, schemas.SessionRecord) error {
	return nil
}

func (w *instant) Event(_ context.Context, e schemas.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses > 0 {
		w.refuses--
		return errors.New("no room")
	}
	w.events[schemas.Name{Tenant: e.Tenant, Session: e.Session}]++
	return nil
}

func (w *instant) UseHistory(_ context.Context, d schemas.UseHistory) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages = append(w.pages, d)
	return nil
}

// rules are the policies of sessions, by turns.
type rules []session.Policy

func (r rules) For(rec schemas.SessionRecord) session.Policy {
	var i int
	_, _ = fmt.Sscanf(string(rec.Session), "s%d", &i) // it is one of ours
	return r[i%len(r)]
}

func (rules) Changed() <-chan struct{} { return nil }

func someRules(t *testing.T) (out rules) {
	for _, texts := range [][]string{
		nil, {"grace=30s"}, {"grace=2m", "warn=30s"}, {"grace=1m", "ask=for:20s,defer:2m,times:2"}, {"grace=1m", "life=10m", "awake=3m"},
		{"grace=20s", "quiet=00:30-01:30; 03:00-04:00"}, {"grace=1m", "counts=input,hold,busy", "ignore=busy.a", "wakes=input"}, {"never=true", "life=20m", "warn=1m"},
	} {
		var w schemas.Policy
		for _, text := range texts {
			if err := w.Assign(text); err != nil {
				t.Fatal(err)
			}
		}
		p, _ := session.PolicyFor("web", nil)
		out = append(out, p.With(w))
	}
	return out
}

// hours makes up what is said of a session in some hours.
func hours(r *rand.Rand, n schemas.Name, from time.Time, length time.Duration) (out []session.Message) {
	pause := []time.Duration{5 * time.Second, time.Minute, 6 * time.Minute, 30 * time.Minute}
	for at := from; ; {
		at = at.Add(time.Millisecond + time.Duration(r.Int64N(int64(pause[r.IntN(len(pause))]))))
		if !at.Before(from.Add(length)) {
			return out
		}
		m := session.Message{Source: schemas.Source{Name: n, Kind: schemas.Kinds()[r.IntN(8)]}, At: at}
		if m.Source.Kind.Lease() {
			m.Source.Key = []string{"a", "b", schemas.AnswerKey}[r.IntN(3)]
			m.Activity.TTL = schemas.Duration(time.Duration(r.IntN(200)) * time.Second)
			m.Activity.Released = r.IntN(3) == 0
		}
		out = append(out, m)
	}
}

// The loop, which looks at a session no more often than it must, suspends and wakes
// in the same moments as a session of its own that is lived again by itself does.
func TestLoopDecidesAsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, length = 64, 6 * time.Hour
		w := newInstant()
		r := rand.New(rand.NewPCG(1, 2))
		var all []session.Message
		for i := range sessions {
			n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}
			w.add(n)
			all = append(all, hours(r, n, w.from, length)...)
		}
		slices.SortStableFunc(all, func(a, b session.Message) int { return a.At.Compare(b.At) })
		for i := range all {
			all[i].Seq = uint64(i + 1)
		}
		policies := someRules(t)
		w.live(t, policies, all, length)
		if len(w.events) == 0 {
			t.Error("no warning or question was published")
		}
		for n, v := range w.records(t) {
			l := replay.Life{Record: v, From: w.from, To: w.from.Add(length), Said: of(all, n)}
			l.Record.State, l.Record.Boot, l.Record.Since, l.Record.Seq = schemas.Running, "clean", w.from, 0
			compare(t, n, w.naps[n], replay.Run(l, policies.For(v), replay.Costs{}))
		}
	})
}

func of(all []session.Message, n schemas.Name) (out []session.Message) {
	for _, m := range all {
		if m.Source.Name == n {
			out = append(out, m)
		}
	}
	return out
}

// live has a scheduler hear it all.
func (w *instant) live(t *testing.T, policies rules, all []session.Message, length time.Duration) {
	s := New(Options{Records: w, Bus: w, Policies: policies, Actor: "scheduler@h"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	<-s.Ready()
	synctest.Wait()
	for _, m := range all {
		time.Sleep(time.Until(m.At))
		w.said <- stream.Heard{Message: m}
		synctest.Wait()
	}
	time.Sleep(time.Until(w.from.Add(length)) - time.Nanosecond)
	synctest.Wait()
	var err error
	if w.open, err = s.Silences(ctx, func(schemas.SessionRecord) bool { return true }); err != nil {
		t.Error(err)
	}
	if w.going, err = s.Uses(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func compare(t *testing.T, n schemas.Name, got, want []replay.Nap) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Errorf("session %s: %d naps, lived again %d: %v", n, len(got), len(want), append(got, want...)[min(len(got), len(want))])
			return
		}
		g, o := got[i], want[i]
		if !g.Woken {
			g.To = o.To
		}
		if !g.From.Equal(o.From) || !g.To.Equal(o.To) || g.Woken != o.Woken || g.Expired != o.Expired {
			t.Errorf("session %s: nap %d is %v to %v, lived again %v to %v", n, i, g.From.Format(time.TimeOnly+".000"), g.To.Format(time.TimeOnly+".000"), o.From.Format(time.TimeOnly+".000"), o.To.Format(time.TimeOnly+".000"))
			return
		}
	}
	if len(want) == 0 {
		t.Errorf("session %s was never suspended", n)
	}
}

// What couldn't be said before a suspend is said again, and the suspend waits for it.
func TestWarningThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newInstant()
		w.refuses = 5
		n := schemas.Name{Tenant: "acme", Session: "s0"}
		w.add(n)
		p, _ := session.PolicyFor("web", nil)
		p.Grace, p.Warn = time.Minute, 20*time.Second
		w.live(t, rules{p}, nil, 5*time.Minute)
		if naps := w.naps[n]; len(naps) != 1 || naps[0].From.Sub(w.from) != 65*time.Second || w.events[n] != 1 {
			t.Errorf("suspended after %v, said %d times", naps[0].From.Sub(w.from), w.events[n])
		}
	})
}

// sittings makes up uses that each begin with a command: some are over at once, some
// go on for as long as a lease holds the session. The silences between are long enough
// for the use history.
func sittings(r *rand.Rand, n schemas.Name, from time.Time, length time.Duration) (out []session.Message) {
	for at := from; ; {
		at = at.Add(time.Second + time.Duration(r.Int64N(int64(20*time.Minute)))).Truncate(time.Millisecond)
		if !at.Before(from.Add(length)) {
			return out
		}
		out = append(out, session.Message{Source: schemas.Source{Name: n, Kind: schemas.KindInput}, At: at})
		if r.IntN(2) == 0 {
			m := session.Message{Source: schemas.Source{Name: n, Kind: schemas.KindHold, Key: "h"}, At: at.Add(time.Millisecond)}
			m.Activity.TTL = schemas.Duration(time.Second + time.Duration(r.IntN(600))*time.Second)
			out, at = append(out, m), m.At.Add(time.Duration(m.Activity.TTL)+silenceMin)
		}
	}
}

// The use history of what was heard is enough to tell what happened: lived again from it alone,
// under the policy that held, the sessions sleep when they did.
func TestUseHistoryIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, length = 30, 6 * time.Hour
		w := newInstant()
		r := rand.New(rand.NewPCG(3, 4))
		var all []session.Message
		for i := range sessions {
			n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}
			w.add(n)
			all = append(all, sittings(r, n, w.from, length)...)
		}
		slices.SortStableFunc(all, func(a, b session.Message) int { return a.At.Compare(b.At) })
		for i := range all {
			all[i].Seq = uint64(i + 1)
		}
		var policies rules
		for _, minutes := range []time.Duration{1, 3, 8} {
			p, _ := session.PolicyFor("web", nil)
			p.Grace = minutes * time.Minute
			policies = append(policies, p)
		}
		w.live(t, policies, all, length)
		silences := map[schemas.UID][]schemas.Silence{}
		for _, d := range append(w.pages, schemas.UseHistory{Silences: w.open}) {
			for _, s := range d.Silences {
				silences[s.UID] = append(silences[s.UID], s)
			}
		}
		for n, v := range w.records(t) {
			life := replay.FromSilences(v, w.from, w.from.Add(length), silences[v.UID])
			compare(t, n, w.naps[n], replay.Run(life, replay.AsKnown(policies.For(v)), replay.Costs{}))
		}
	})
}
