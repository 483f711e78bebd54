package scheduler

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// A session that moves takes a slot where it goes, and one of its tenant's, from when that is
// recorded until it is there or runs on where it was.
func TestMovesCountAtTheirTarget(t *testing.T) {
	l := newLoop(New(Options{}))
	l.hosts.announced(schemas.Host{Host: "b", Slots: 1})
	op := func(kind string) *schemas.Op {
		return &schemas.Op{ID: "o", Kind: kind, Move: &schemas.Move{From: "a", To: "b"}}
	}
	want := func(when string, free bool, running int) {
		t.Helper()
		n := 0
		if h := l.quotas.tenants["acme"]; h != nil {
			n = len(h.running)
		}
		if l.hosts.free("b") != free || n != running {
			t.Errorf("%s: host b is free: %v, the tenant has %d running", when, l.hosts.free("b"), n)
		}
	}
	seen(l, "a", "s", schemas.Running, nil, "agent")
	want("before", true, 1)
	seen(l, "a", "s", schemas.Suspending, op(schemas.OpSuspend), "agent")
	want("while its image is written", false, 1)
	seen(l, "a", "s", schemas.Suspended, op(schemas.OpReap), "agent")
	want("suspended", false, 1)
	seen(l, "b", "s", schemas.Resuming, op(schemas.OpResume), "agent")
	want("resumed there", false, 1)
	seen(l, "a", "s", schemas.Resuming, &schemas.Op{Kind: schemas.OpResume}, "agent")
	want("going back", true, 1)
	seen(l, "a", "s", schemas.Suspended, nil, "agent")
	want("asleep", true, 0)
	if len(l.hosts.moving) != 0 || l.hosts.of("b").coming != 0 {
		t.Errorf("%d moves are remembered", len(l.hosts.moving))
	}
}

// What is woken where it may not stay has its host chosen first.
func TestWakesArePlaced(t *testing.T) {
	js, names := natstest.Streams(t), stream.NamesWith("")
	records, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	orders := hostkv.NewCache(js, names, nil)
	if _, err := orders.Update(t.Context(), "closed", func(o *schemas.HostOrder) (bool, error) { o.Cordoned = true; return true, nil }); err != nil {
		t.Fatal(err)
	}
	a := newActor(New(Options{Records: records, Orders: orders}))
	for name, c := range map[string]struct {
		host      schemas.HostID
		placement *schemas.Placement
		unplaced  bool
	}{
		"open":    {"open", nil, false},
		"closed":  {"closed", nil, true},
		"choosy":  {"open", &schemas.Placement{Spread: true}, true},
		"nowhere": {"never-heard-of", nil, false},
	} {
		n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(name)}
		var v statekv.Versioned
		for _, tr := range []schemas.Transition{
			{Type: schemas.TRun, Set: schemas.Set{Host: c.host, New: &schemas.NewSession{UID: schemas.UID(name), Tenant: n.Tenant, Session: n.Session, Placement: c.placement}}},
			{Type: schemas.TStarted},
			{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpSuspend}}},
			{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: "acme/x/1-1"}}},
		} {
			if v, err = records.Update(t.Context(), n, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return tr, true, nil }); err != nil {
				t.Fatal(err)
			}
		}
		next, err := a.record(t.Context(), n, v.Rev, session.Decision{Verdict: session.Wake})
		if err != nil || next.Op == nil || next.Op.Unplaced != c.unplaced || next.Host != c.host {
			t.Errorf("%s: %+v, %v", name, next.Op, err)
		}
	}
}

// How a session is used is known of those alone that run as their records were read, while activity
// is heard in time.
func TestInUse(t *testing.T) {
	l := newLoop(New(Options{}))
	used, asleep := seen(l, "a", "used", schemas.Running, nil, "agent"), seen(l, "a", "asleep", schemas.Suspended, nil, "agent")
	names := []schemas.Name{used.name(), asleep.name(), {Tenant: "acme", Session: "none"}}
	m := session.Message{Source: schemas.Source{Name: used.name(), Kind: schemas.KindInput}, Seq: 7, At: time.Now()}
	l.listen(&m)
	now := time.Now()
	if all := l.inUse(names, now); len(all) != 0 {
		t.Errorf("before all was heard: %+v", all)
	}
	l.lag.hearing = true
	all := l.inUse(names, now)
	if u, ok := all[used.name()]; len(all) != 1 || !ok || u.What != "last activity: input; the grace is 5m0s" || u.Seq != 7 || !u.Until.After(now) {
		t.Errorf("%+v", all)
	}
	if u := l.inUse(names, now.Add(time.Hour))[used.name()]; u.What != "" {
		t.Errorf("an hour later: %+v", u)
	}
	l.table.heardSince = now.Add(time.Hour)
	if u := l.inUse(names, now.Add(time.Hour))[used.name()]; u.What == "" {
		t.Error("it isn't in use, and nothing was heard for an hour")
	}
	l.lag.through = now.Add(-time.Hour)
	if all := l.inUse(names, now); len(all) != 0 {
		t.Errorf("while activity is heard late: %+v", all)
	}
}
