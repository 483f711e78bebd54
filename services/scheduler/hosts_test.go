package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// seen has a loop see a session.
func seen(l *loop, host schemas.HostID, id string, state schemas.State, op *schemas.Op, madeBy schemas.MadeBy) *tracked {
	n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}
	l.see(&statekv.Glance{Record: schemas.SessionRecord{
		UID: schemas.UID("uid-" + id), Tenant: n.Tenant, Session: n.Session, State: state, Class: "web", Host: host, Op: op, MadeBy: madeBy,
	}})
	t, _ := l.table.find(n)
	return t
}

func due(l *loop, t *tracked) {
	v := l.table.view(t)
	p, _ := session.PolicyFor("web", nil)
	l.hosts.wait(t, v.Score(p.Score, time.Now()), v.IdleSince())
}

// Each host works on so many suspends, a host without room holds up no other, and what
// matters least goes first.
func TestPace(t *testing.T) {
	l := newLoop(New(Options{}))
	for i := range suspendsAtOnce + 2 {
		due(l, seen(l, "a", fmt.Sprint("s", i), schemas.Running, nil, []schemas.MadeBy{schemas.MadeByPerson, schemas.MadeByAgent}[i%2]))
	}
	due(l, seen(l, "b", "other", schemas.Running, nil, "person"))
	var order []schemas.MadeBy
	for at := l.hosts.pick(); at != nil; at = l.hosts.pick() {
		l.hosts.count(at)
		v := l.table.view(at)
		order = append(order, v.Record.MadeBy)
	}
	if len(order) != suspendsAtOnce+1 {
		t.Fatalf("%d suspends begin on two hosts", len(order))
	}
	for _, who := range order[:suspendsAtOnce/2+1] {
		if who != "agent" {
			t.Errorf("they go in the order %v: what matters least comes first", order)
		}
	}
	// One that is through makes room for one, whichever it was.
	seen(l, "a", "s1", schemas.Suspending, &schemas.Op{Kind: schemas.OpSuspend, Idle: true}, "agent")
	if l.hosts.pick() != nil {
		t.Error("one that is under way makes room")
	}
	seen(l, "a", "s1", schemas.Suspended, nil, "agent")
	if at := l.hosts.pick(); at == nil {
		t.Error("one that is through makes no room")
	} else {
		l.hosts.count(at)
	}
	if l.hosts.pick() != nil {
		t.Error("it makes room for more than one")
	}
}

// All hosts share a store: it isn't asked for more than it takes.
func TestPaceOfAllHosts(t *testing.T) {
	l := newLoop(New(Options{}))
	for i := range suspendsInAll + 10 {
		due(l, seen(l, schemas.HostID(fmt.Sprint("h", i)), fmt.Sprint("s", i), schemas.Running, nil, "agent"))
	}
	n := 0
	for at := l.hosts.pick(); at != nil; at = l.hosts.pick() {
		l.hosts.count(at)
		n++
	}
	if n != suspendsInAll {
		t.Errorf("%d suspends begin at once", n)
	}
}

// Hosts that are gone in the middle of their suspends don't keep others from theirs for
// ever, and one that comes back counts again.
func TestPaceWithoutHostsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{}))
		op := schemas.Op{Kind: schemas.OpSuspend, Idle: true}
		for i := range suspendsInAll {
			seen(l, schemas.HostID(fmt.Sprint("gone", i%40)), fmt.Sprint("s", i), schemas.Suspending, &op, "agent")
		}
		due(l, seen(l, "here", "one", schemas.Running, nil, "agent"))
		time.Sleep(stuckAfter - time.Second)
		op.Claim = "gone0.x" // this one isn't gone
		seen(l, "gone0", "s0", schemas.Suspending, &op, "agent")
		if at := l.hosts.pick(); at != nil {
			t.Fatalf("%s begins though there is no room", at.key)
		}
		time.Sleep(stuckLook)
		at := l.hosts.pick()
		if at == nil {
			t.Fatal("no session is suspended any more: hosts that are gone take all the room")
		}
		l.hosts.count(at)
		if n := l.hosts.byName["gone0"].going; l.hosts.pace.going != n+1 {
			t.Errorf("%d suspends count, of %d of the host that works and 1 of another", l.hosts.pace.going, n)
		}
		for i := range suspendsInAll { // they are all back: what they do counts, and ends
			seen(l, schemas.HostID(fmt.Sprint("gone", i%40)), fmt.Sprint("s", i), schemas.Suspending, &op, "agent")
		}
		if l.hosts.pace.going != suspendsInAll+1 {
			t.Errorf("%d suspends count after all hosts are back", l.hosts.pace.going)
		}
		for i := range suspendsInAll {
			seen(l, schemas.HostID(fmt.Sprint("gone", i%40)), fmt.Sprint("s", i), schemas.Suspended, nil, "agent")
		}
		seen(l, "here", "one", schemas.Suspended, nil, "agent")
		if l.hosts.pace.going != 0 || len(l.hosts.pace.busy) != 0 {
			t.Errorf("%d suspends on %d hosts count when all are through", l.hosts.pace.going, len(l.hosts.pace.busy))
		}
	})
}

// A session whose record changes while it waits is out of line, and what is counted at
// a host comes to nothing when its sessions are gone.
func TestPaceForgets(t *testing.T) {
	l := newLoop(New(Options{}))
	for i := range 5 {
		id := fmt.Sprint("s", i)
		due(l, seen(l, "a", id, schemas.Running, nil, "agent"))
		seen(l, "b", id, schemas.Suspending, &schemas.Op{Kind: schemas.OpSuspend, Idle: true}, "agent")
	}
	if at := l.hosts.pick(); at != nil {
		t.Errorf("%s is out of line, and its turn comes", at.key)
	}
	if b := l.hosts.byName["b"]; b.going != 5 || len(b.slots) != 5 || len(l.hosts.byName["a"].slots) != 0 || l.hosts.pace.going != 5 {
		t.Errorf("host b has %d suspends and %d sessions, host a %d sessions", b.going, len(b.slots), len(l.hosts.byName["a"].slots))
	}
	for i := range 5 {
		l.see(&statekv.Glance{Record: schemas.SessionRecord{UID: "x", Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i)), State: schemas.Deleted}})
	}
	if b := l.hosts.byName["b"]; b.going != 0 || len(b.slots) != 0 || l.hosts.pace.going != 0 || len(l.table.sessions) != 0 {
		t.Errorf("of what is gone remain %d suspends, %d seats, %d sessions", b.going, len(b.slots), len(l.table.sessions))
	}
}

// What waits for its turn is asked again when that comes.
func TestWaitingIsNoVerdict(t *testing.T) {
	l := newLoop(New(Options{}))
	l.lag.hearing, l.agenda.open, l.table.heardSince = true, true, time.Now()
	at := seen(l, "a", "s", schemas.Running, nil, "agent")
	due(l, at)
	l.admit(t.Context())
	if at.acting || at.waiting || !at.fresh && at.place == nowhere {
		t.Errorf("its grace just started, and it is %+v", at)
	}
}
