package shim

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/workers/driver"
)

// noted is what a guard did to a session.
type noted struct {
	mu   sync.Mutex
	did  []string
	seen chan string
	slow bool // it doesn't freeze
}

func (n *noted) do(what string) {
	n.mu.Lock()
	n.did = append(n.did, what)
	n.mu.Unlock()
	n.seen <- what
}

func (n *noted) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-n.seen:
		if got != want {
			t.Fatalf("it was made to %s, want %s", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it wasn't made to %s", want)
	}
}

func newNoted() (*noted, *guard) {
	n := &noted{seen: make(chan string, 10)}
	return n, &guard{
		freeze: func(ctx context.Context) error {
			if n.slow {
				<-ctx.Done()
				return ctx.Err()
			}
			n.do("freeze")
			return nil
		},
		thaw: func() error { n.do("thaw"); return nil },
		kill: func(context.Context) error { n.do("kill"); return nil },
	}
}

func until(d time.Duration) *Lease {
	return &Lease{Until: term.Now().Add(d), Within: 50 * time.Millisecond, Guard: true}
}

// A session freezes by itself when its lease is over, stays so until another one comes,
// and is then thawed by its worker's order alone.
func TestGuard(t *testing.T) {
	n, g := newNoted()
	if err := g.hear(until(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n.await(t, "freeze")
	if fenced, _ := g.state(); !fenced {
		t.Error("it doesn't say that it froze by itself")
	}
	if err := g.release(true); !errors.Is(err, driver.ErrNoLease) {
		t.Errorf("thawed without a lease: %v", err)
	}
	if err := g.hear(&Lease{Until: term.Now().Add(-time.Second), Guard: true}); !errors.Is(err, driver.ErrNoLease) {
		t.Errorf("a lease that is over was taken: %v", err)
	}
	if err := g.hear(until(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if fenced, _ := g.state(); !fenced {
		t.Error("a renewal thawed it")
	}
	if err := g.release(true); err != nil {
		t.Fatal(err)
	}
	n.await(t, "thaw")
	if fenced, _ := g.state(); fenced {
		t.Error("it says that it still stands")
	}
}

// What can't be frozen is killed.
func TestGuardKills(t *testing.T) {
	n, g := newNoted()
	n.slow = true
	if err := g.hear(until(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n.await(t, "kill")
	if fenced, killed := g.state(); fenced || !killed {
		t.Errorf("fenced %v, killed %v", fenced, killed)
	}
}

// While criu holds the processes they stand still, and it needs the freezer: the end of
// a lease waits for it.
func TestGuardWaitsForDump(t *testing.T) {
	n, g := newNoted()
	err := g.hold(func() error {
		if err := g.hear(until(10 * time.Millisecond)); err != nil {
			return err
		}
		for term.Now() < g.lease.Until.Add(20*time.Millisecond) { // the timer has gone off
			time.Sleep(time.Millisecond)
		}
		if len(n.seen) > 0 {
			t.Error("it was frozen under criu")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.await(t, "freeze")
}

// A lease that ran out isn't forgotten when another one comes before anything could be done
// about it: others may have the session, and only a worker that made sure of it thaws it.
func TestGuardRemembers(t *testing.T) {
	n, g := newNoted()
	err := g.hold(func() error {
		if err := g.hear(until(time.Millisecond)); err != nil {
			return err
		}
		for term.Now() < g.lease.Until {
			time.Sleep(time.Millisecond)
		}
		if err := g.hear(until(time.Hour)); err != nil {
			return err
		}
		if err := g.live(); !errors.Is(err, driver.ErrNoLease) {
			t.Errorf("what was to begin by the first one may still: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.await(t, "freeze")
	if err := g.release(false); !errors.Is(err, driver.ErrNoLease) {
		t.Errorf("it runs on by itself: %v", err)
	}
	if err := g.release(true); err != nil {
		t.Fatal(err)
	}
	n.await(t, "thaw")
	if err := g.live(); err != nil {
		t.Error(err)
	}
}

// A session that doesn't guard itself is bounded by the order alone.
func TestNoGuard(t *testing.T) {
	n, g := newNoted()
	if err := g.hear(&Lease{Until: term.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := g.hear(&Lease{Until: term.Now().Add(-time.Second)}); !errors.Is(err, driver.ErrNoLease) {
		t.Errorf("a late order was taken: %v", err)
	}
	if err := g.hear(nil); err != nil {
		t.Error(err)
	}
	if err := g.release(true); err != nil {
		t.Fatal(err)
	}
	n.await(t, "thaw")
}
