package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Host is a machine with a driver on it.
type Host struct {
	// Open gives the driver of the host. Another call gives one that knows
	// nothing but what the host does, as after a restart of the worker.
	Open func(t *testing.T) driver.Driver
	// Counting is a session that counts until it is killed.
	Counting driver.Spec
	// Count gives how far the counter of a running session has come. It waits for
	// at least one step.
	Count func(t *testing.T, d driver.Driver, uid schemas.UID) int
	// Missing is a session whose command doesn't exist.
	Missing driver.Spec
	// End makes a counting session end by itself with code 7.
	End func(t *testing.T, d driver.Driver, uid schemas.UID)
}

// Limit bounds each wait of the suite: it is only reached when something is
// broken.
const Limit = time.Minute

// bench is one test's host, driver and context.
type bench struct {
	Host
	t   *testing.T
	ctx context.Context
	d   driver.Driver
}

// Run tries everything that the port promises on hosts that fresh makes.
func Run(t *testing.T, fresh func(t *testing.T) Host) {
	for _, c := range []struct {
		name string
		test func(b *bench)
	}{
		{"start", testStart},
		{"missing command", testMissing},
		{"begin fails at start", testBeginFailsAtStart},
		{"capture and restore", testCaptureAndRestore},
		{"many cycles", testManyCycles},
		{"fork", testFork},
		{"begin fails at restore", testBeginFailsAtRestore},
		{"thaw", testThaw},
		{"sink fails", testSinkFails},
		{"stale epoch", testStale},
		{"stale epoch after restart", testStaleAfterRestart},
		{"stop", testStop},
		{"start twice", testStartTwice},
		{"recover", testRecover},
		{"not here", testNotHere},
		{"exit", testExit},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := fresh(t)
			ctx, cancel := context.WithTimeout(context.Background(), Limit)
			defer cancel()
			c.test(&bench{Host: h, t: t, ctx: ctx, d: h.Open(t)})
		})
	}
}

// Fence makes the right to act on a session of that name, which is also its uid.
func Fence(name string, epoch uint64) driver.Fence {
	return driver.Fence{
		UID: schemas.UID(name), Epoch: epoch,
		Name: schemas.Name{Tenant: schemas.DefaultTenant, Session: schemas.SessionID(name)},
	}
}

// Begin is a begin that agrees.
func Begin(context.Context) error { return nil }

// start starts a counting session that is stopped at the end of the test.
func (b *bench) start(name string) driver.Instance {
	b.t.Helper()
	i, err := b.d.Start(b.ctx, Fence(name, 1), b.Counting, Begin)
	if err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	b.stopLater(name)
	return i
}

func (b *bench) stopLater(name string) {
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Limit)
		defer cancel()
		if err := b.d.Stop(ctx, Fence(name, 1<<40)); err != nil {
			b.t.Errorf("Stop at the end of the test: %v", err)
		}
	})
}

func (b *bench) count(name string) int {
	b.t.Helper()
	return b.Count(b.t, b.d, schemas.UID(name))
}

func (b *bench) capture(f driver.Fence) *Image {
	b.t.Helper()
	img := &Image{}
	c, err := b.d.Capture(b.ctx, f, img)
	if err != nil {
		b.t.Fatalf("Capture: %v", err)
	}
	if c.Frozen.IsZero() || c.Fingerprint.Driver == "" {
		b.t.Errorf("Capture doesn't say when it froze, or what it needs: %+v", c)
	}
	return img
}

func (b *bench) stop(f driver.Fence) {
	b.t.Helper()
	if err := b.d.Stop(b.ctx, f); err != nil {
		b.t.Fatalf("Stop: %v", err)
	}
}

func (b *bench) restore(f driver.Fence, img *Image, boot driver.Boot) driver.Instance {
	b.t.Helper()
	i, err := b.d.Restore(b.ctx, f, b.Counting, img, boot, Begin)
	if err != nil {
		b.t.Fatalf("Restore: %v", err)
	}
	return i
}

func (b *bench) state(name string, want driver.State) driver.Instance {
	b.t.Helper()
	i, err := b.d.Inspect(b.ctx, schemas.UID(name))
	if err != nil {
		b.t.Fatalf("Inspect: %v", err)
	}
	if i.State != want {
		b.t.Errorf("session %s is %s, want %s", name, i.State, want)
	}
	return i
}

func (b *bench) gone(name string) {
	b.t.Helper()
	if i, err := b.d.Inspect(b.ctx, schemas.UID(name)); !errors.Is(err, driver.ErrNotHere) {
		b.t.Errorf("Inspect gives %+v, %v; want that the session isn't here", i, err)
	}
	all, err := b.d.Recover(b.ctx)
	if err != nil {
		b.t.Fatalf("Recover: %v", err)
	}
	if slices.ContainsFunc(all, func(i driver.Instance) bool { return i.UID == schemas.UID(name) }) {
		b.t.Errorf("Recover still finds session %s: %+v", name, all)
	}
}

func testStart(b *bench) {
	begun := false
	i, err := b.d.Start(b.ctx, Fence("a", 3), b.Counting, func(context.Context) error {
		begun = true
		return nil
	})
	if err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	b.stopLater("a")
	if !begun {
		b.t.Error("Start didn't ask before it ran the command")
	}
	if i.UID != "a" || i.Name != Fence("a", 3).Name || i.Epoch != 3 || i.State != driver.Running || i.PID <= 0 || i.Started.IsZero() || i.Exit != nil {
		b.t.Errorf("Start gives %+v", i)
	}
	if first, second := b.count("a"), b.count("a"); second <= first {
		b.t.Errorf("the session counts %d, then %d", first, second)
	}
	if now := b.state("a", driver.Running); now.PID != i.PID || now.Epoch != 3 {
		b.t.Errorf("Inspect gives %+v, Start gave %+v", now, i)
	}
}

func testMissing(b *bench) {
	_, err := b.d.Start(b.ctx, Fence("a", 1), b.Missing, func(context.Context) error {
		b.t.Error("begin was called for a command that doesn't exist")
		return nil
	})
	if driver.KindOf(err) != driver.Refused || err == nil {
		b.t.Errorf("Start of a missing command: %v, want an error of kind refused", err)
	}
	b.gone("a")
}

var errBegin = errors.New("someone else was first")

func refuse(context.Context) error { return errBegin }

func testBeginFailsAtStart(b *bench) {
	if _, err := b.d.Start(b.ctx, Fence("a", 1), b.Counting, refuse); !errors.Is(err, errBegin) {
		b.t.Errorf("Start gives %v, want what begin said", err)
	}
	b.gone("a")
	b.start("a")
}

func testCaptureAndRestore(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	if i := b.state("a", driver.Frozen); i.Epoch != 2 {
		b.t.Errorf("after a capture with epoch 2 the session has %d", i.Epoch)
	}
	b.stop(Fence("a", 2))
	b.gone("a")
	begun := false
	i, err := b.d.Restore(b.ctx, Fence("a", 3), b.Counting, img, driver.BootResume, func(context.Context) error {
		begun = true
		return nil
	})
	if err != nil {
		b.t.Fatalf("Restore: %v", err)
	}
	if !begun || i.State != driver.Running || i.Epoch != 3 || i.PID <= 0 {
		b.t.Errorf("Restore gives %+v, asked before: %t", i, begun)
	}
	if after := b.count("a"); after <= before {
		b.t.Errorf("the session counted to %d, and %d after its restore", before, after)
	}
}

func testManyCycles(b *bench) {
	b.start("a")
	last := 0
	for epoch := uint64(2); epoch < 22; epoch += 2 {
		n := b.count("a")
		if n <= last {
			b.t.Fatalf("at epoch %d the session counts %d, %d before", epoch, n, last)
		}
		last = n
		img := b.capture(Fence("a", epoch))
		b.stop(Fence("a", epoch))
		b.restore(Fence("a", epoch+1), img, driver.BootResume)
	}
}

func testFork(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	if err := b.d.Thaw(b.ctx, Fence("a", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	b.stopLater("b")
	b.restore(Fence("b", 1), img, driver.BootFork)
	if n := b.count("a"); n <= before {
		b.t.Errorf("the origin counts %d, %d before", n, before)
	}
	if n := b.count("b"); n <= before {
		b.t.Errorf("the fork counts %d, its origin had %d", n, before)
	}
}

func testBeginFailsAtRestore(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	b.stop(Fence("a", 2))
	if _, err := b.d.Restore(b.ctx, Fence("a", 3), b.Counting, img, driver.BootResume, refuse); !errors.Is(err, errBegin) {
		b.t.Errorf("Restore gives %v, want what begin said", err)
	}
	b.gone("a")
	b.restore(Fence("a", 4), img, driver.BootResume)
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
}

func testThaw(b *bench) {
	b.start("a")
	before := b.count("a")
	b.capture(Fence("a", 2))
	for range 2 { // again does nothing
		if err := b.d.Thaw(b.ctx, Fence("a", 3)); err != nil {
			b.t.Fatalf("Thaw: %v", err)
		}
		b.state("a", driver.Running)
	}
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	b.capture(Fence("a", 4))
}

func testSinkFails(b *bench) {
	b.start("a")
	before := b.count("a")
	full := errors.New("the store is full")
	img := &Image{Fail: func(image.Entry) error { return full }}
	if _, err := b.d.Capture(b.ctx, Fence("a", 2), img); !errors.Is(err, full) {
		b.t.Errorf("Capture gives %v, want what the sink said", err)
	}
	if err := b.d.Thaw(b.ctx, Fence("a", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	b.capture(Fence("a", 3))
}

// stale tries every call with an epoch that is too low.
func (b *bench) stale(d driver.Driver, f driver.Fence) {
	b.t.Helper()
	img := &Image{}
	_, start := d.Start(b.ctx, f, b.Counting, Begin)
	_, capture := d.Capture(b.ctx, f, img)
	_, restore := d.Restore(b.ctx, f, b.Counting, img, driver.BootResume, Begin)
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
