package adopted

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A program that others started is suspended and resumed, twice, and goes on with the same pid.
func TestSuspendAndResume(t *testing.T) {
	b := newBench(t)
	pid := b.begins(counter...)
	b.adopt(pid)
	last := b.count()
	for epoch := uint64(2); epoch < 6; epoch += 2 {
		img := b.capture(epoch)
		b.state(driver.Frozen)
		b.stop(epoch)
		b.until("its pid is free", func() bool { _, err := statOf(pid); return errors.Is(err, errGone) })
		if i := b.restore(epoch+1, img); i.PID != pid {
			t.Errorf("it is process %d, and was %d", i.PID, pid)
		}
		n := b.count()
		if n <= last {
			t.Errorf("it counts %d, and was at %d before", n, last)
		}
		last = n
		b.state(driver.Running)
	}
}

var errBegin = errors.New("another was first")

// A tree that doesn't become a session is left as it was found.
func TestNotAdopted(t *testing.T) {
	b := newBench(t)
	pid := b.begins(counter...)
	before, err := b.d.hierarchy.Where(pid)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.d.Start(b.ctx, fence(1), b.spec(pid), func(context.Context) error { return errBegin })
	if !errors.Is(err, errBegin) {
		t.Fatalf("Start says %v", err)
	}
	after, err := b.d.hierarchy.Where(pid)
	if err != nil || strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("its cgroups are %v, %v, and were %v", after, err, before)
	}
	b.count()
	if _, err := b.d.Inspect(b.ctx, "a"); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("Inspect says %v", err)
	}
	b.adopt(pid)
}

// A resume whose pid is taken is refused by name; the image can be restored when it is free.
func TestPidTaken(t *testing.T) {
	b := newBench(t)
	pid := b.begins(counter...)
	b.adopt(pid)
	img := b.capture(2)
	refused := func() {
		t.Helper()
		_, err := b.d.Restore(b.ctx, fence(3), schemas.Spec{}, img, schemas.BootResume, drivertest.Begin)
		if driver.KindOf(err) == driver.Transient || err == nil {
			t.Errorf("Restore says %v", err)
		}
	}
	refused() // it is here still
	b.stop(3)
	b.until("its pid is free", func() bool { _, err := statOf(pid); return errors.Is(err, errGone) })
	taken := b.takes(pid)
	_, err := b.d.Restore(b.ctx, fence(4), schemas.Spec{}, img, schemas.BootResume, drivertest.Begin)
	if driver.KindOf(err) != driver.Taken || !strings.Contains(err.Error(), "is taken by sleep") {
		t.Errorf("Restore says %v", err)
	}
	taken()
	b.restore(5, img)
	b.count()
}
