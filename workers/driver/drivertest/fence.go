package drivertest

import (
	"context"
	"errors"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// stale tries every call with an epoch that is too low.
func (b *bench) stale(d driver.Driver, f driver.Fence) {
	b.t.Helper()
	img := &Image{}
	_, start := d.Start(b.ctx, f, b.Counting, Begin)
	_, capture := d.Capture(b.ctx, f, img)
	_, restore := d.Restore(b.ctx, f, b.Counting, img, schemas.BootResume, Begin)
	for call, err := range map[string]error{
		"Start": start, "Capture": capture, "Restore": restore,
		"Thaw": d.Thaw(b.ctx, f), "Stop": d.Stop(b.ctx, f),
	} {
		if !errors.Is(err, driver.ErrStale) {
			b.t.Errorf("%s with a stale epoch gives %v", call, err)
		}
	}
}

func testStale(b *bench) {
	b.start("a")
	b.capture(Fence("a", 5))
	b.stale(b.d, Fence("a", 4))
	b.state("a", driver.Frozen)
	b.stop(Fence("a", 5))
	b.stale(b.d, Fence("a", 4))
}

func testStaleAfterRestart(b *bench) {
	b.start("a")
	b.capture(Fence("a", 5))
	b.stop(Fence("a", 5))
	b.d = b.Open(b.t)
	b.stale(b.d, Fence("a", 4))
}

func testStop(b *bench) {
	b.start("a")
	for range 2 { // again does nothing
		b.stop(Fence("a", 2))
		b.gone("a")
	}
	b.stop(Fence("never", 1))
	b.start2("a", 3)
}

func (b *bench) start2(name string, epoch uint64) {
	b.t.Helper()
	if _, err := b.d.Start(b.ctx, Fence(name, epoch), b.Counting, Begin); err != nil {
		b.t.Fatalf("Start after Stop: %v", err)
	}
}

func testStartTwice(b *bench) {
	first := b.start("a")
	if _, err := b.d.Start(b.ctx, Fence("a", 2), b.Counting, Begin); driver.KindOf(err) != driver.Refused || err == nil {
		b.t.Errorf("a second Start gives %v, want an error of kind refused", err)
	}
	if i := b.state("a", driver.Running); i.PID != first.PID {
		b.t.Errorf("the session's pid is %d, it was %d", i.PID, first.PID)
	}
	b.count("a")
}

func testRecover(b *bench) {
	running := b.start("running")
	b.start("frozen")
	before := b.count("running")
	b.capture(Fence("frozen", 2))
	b.d = b.Open(b.t)
	all, err := b.d.Recover(b.ctx)
	if err != nil {
		b.t.Fatalf("Recover: %v", err)
	}
	found := make(map[schemas.UID]driver.Instance)
	for _, i := range all {
		found[i.UID] = i
	}
	if i := found["running"]; i.State != driver.Running || i.PID != running.PID || i.Name != running.Name || i.Epoch != 1 {
		b.t.Errorf("Recover gives %+v for %+v", i, running)
	}
	if i := found["frozen"]; i.State != driver.Frozen || i.Epoch != 2 {
		b.t.Errorf("Recover gives %+v for a frozen session", i)
	}
	if len(all) != 2 {
		b.t.Errorf("Recover finds %d sessions, want 2", len(all))
	}
	if n := b.count("running"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	if err := b.d.Thaw(b.ctx, Fence("frozen", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	b.count("frozen")
}

func testNotHere(b *bench) {
	b.gone("a")
	if err := b.d.Thaw(b.ctx, Fence("a", 1)); !errors.Is(err, driver.ErrNotHere) {
		b.t.Errorf("Thaw gives %v", err)
	}
	if _, err := b.d.Capture(b.ctx, Fence("a", 1), &Image{}); !errors.Is(err, driver.ErrNotHere) {
		b.t.Errorf("Capture gives %v", err)
	}
}

func testExit(b *bench) {
	b.start("a")
	watched, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var exits <-chan driver.Instance
	if w, ok := b.d.(driver.Watcher); ok {
		exits = w.Exits(watched)
	}
	b.End(b.t, b.d, "a")
	if exits != nil {
		select {
		case i := <-exits:
			if i.UID != "a" || i.State != driver.Exited {
				b.t.Errorf("Exits gives %+v", i)
			}
		case <-b.ctx.Done():
			b.t.Fatal("Exits says nothing of a session that ended")
		}
	}
	for b.ctx.Err() == nil {
		i, err := b.d.Inspect(b.ctx, "a")
		if err != nil {
			b.t.Fatalf("Inspect: %v", err)
		}
		if i.State != driver.Exited {
			continue
		}
		if i.Exit == nil || i.Exit.Code != 7 || i.PID != 0 {
			b.t.Errorf("Inspect gives %+v (%+v), want exit code 7", i, i.Exit)
		}
		break
	}
	if _, err := b.d.Capture(b.ctx, Fence("a", 2), &Image{}); err == nil {
		b.t.Error("a session that ended can be captured")
	}
	b.stop(Fence("a", 3))
	b.gone("a")
}
