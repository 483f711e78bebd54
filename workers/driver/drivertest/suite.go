package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Host is a machine with a driver on it.
type Host struct {
	// Open gives the driver of the host. Another call gives one that knows
	// nothing but what the host does, as after a restart of the worker.
	Open func(t *testing.T) driver.Driver
	// Counting is a session that counts until it is killed.
	Counting schemas.Spec
	// Count gives how far the counter of a running session has come. It waits for
	// at least one step.
	Count func(t *testing.T, d driver.Driver, uid schemas.UID) int
	// Missing is a session whose command doesn't exist.
	Missing schemas.Spec
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

// Run tries everything that the port promises on hosts that fresh makes, or only
// the cases of those names.
func Run(t *testing.T, fresh func(t *testing.T) Host, only ...string) {
	for _, name := range only {
		if !slices.ContainsFunc(cases, func(c testCase) bool { return c.name == name }) {
			t.Errorf("there is no case %q", name)
		}
	}
	for _, c := range cases {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			h := fresh(t)
			ctx, cancel := context.WithTimeout(context.Background(), Limit)
			defer cancel()
			c.test(&bench{Host: h, t: t, ctx: ctx, d: h.Open(t)})
		})
	}
}

type testCase struct {
	name string
	test func(b *bench)
}

var cases = []testCase{
	{"start", testStart},
	{"missing command", testMissing},
	{"begin fails at start", testBeginFailsAtStart},
	{"capture and restore", testCaptureAndRestore},
	{"many cycles", testManyCycles},
	{"random access", testRandomAccess},
	{"fork", testFork},
	{"begin fails at restore", testBeginFailsAtRestore},
	{"thaw", testThaw},
	{"capture again", testCaptureAgain},
	{"sink fails", testSinkFails},
	{"context ends", testContextEnds},
	{"stale epoch", testStale},
	{"stale epoch after restart", testStaleAfterRestart},
	{"stop", testStop},
	{"start twice", testStartTwice},
	{"recover", testRecover},
	{"not here", testNotHere},
	{"exit", testExit},
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

func (b *bench) restore(f driver.Fence, img *Image, boot schemas.Boot) driver.Instance {
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
