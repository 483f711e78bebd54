package criu

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// TestWhatMayHaveRunStaysNoted kills a shim, or returns an error, after its session was
// let run and before the driver heard of it. The next driver, in a process of its own,
// finds that it may have run, until Stop; nothing else is left of it.
func TestWhatMayHaveRunStaysNoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   failpoint.Name
		what string
	}{
		{failpoint.ShimWritten, "kill"}, {failpoint.ShimStarted, "kill"}, {failpoint.ShimStarted, "error"},
		{failpoint.ShimNoted, "kill"}, {failpoint.ShimRuns, "kill"}, {failpoint.ShimRuns, "error"},
	} {
		t.Run(string(c.at)+" "+c.what, func(t *testing.T) {
			data := t.TempDir()
			d := open(t, data)
			f := drivertest.Fence("s", 1)
			raise := func(f driver.Fence) error {
				_, err := d.Start(limited(t), f, counting, drivertest.Begin)
				return err
			}
			if strings.HasPrefix(string(c.at), "shim.restore.") {
				s := begin(t, d, "s", counting)
				img := s.suspend()
				f = s.next()
				raise = func(f driver.Fence) error {
					_, err := d.Restore(limited(t), f, counting, img, schemas.BootResume, drivertest.Begin)
					return err
				}
			}
			var err error
			if d.options.Failpoints, err = failpoint.Parse(string(c.at) + "=" + c.what); err != nil {
				t.Fatal(err)
			}
			if err := raise(f); driver.KindOf(err) != driver.Broken {
				t.Errorf("it gives %v, of kind %s", err, driver.KindOf(err))
			}
			heirs(t, open(t, data), f)
		})
	}
}

// heirs looks for a session that was lost as the next worker's driver does, and stops it.
func heirs(t *testing.T, d *Driver, f driver.Fence) {
	t.Helper()
	for range 2 { // it is told until Stop
		all, err := d.Recover(limited(t))
		if err != nil || len(all) != 1 || all[0].State != driver.Exited || !all[0].Lost || all[0].Epoch != f.Epoch {
			t.Fatalf("Recover gives %+v, %v", all, err)
		}
	}
	i, err := d.Inspect(limited(t), f.UID)
	if err != nil || i.State != driver.Exited || !i.Lost || i.Exit == nil || i.Exit.Reason == "" {
		t.Errorf("Inspect gives %+v, %v", i, err)
	}
	if err := d.Stop(limited(t), f); err != nil {
		t.Error(err)
	}
	if _, err := d.Inspect(limited(t), f.UID); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("after Stop, Inspect gives %v", err)
	}
	for _, dir := range []string{d.dir.run, d.dir.sessions} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("after Stop %s has %v, %v", dir, left, err)
		}
	}
}

// TestWhatNeverRanLeavesNothing does the same before that: the session can be started again.
func TestWhatNeverRanLeavesNothing(t *testing.T) {
	t.Parallel()
	for at, what := range map[failpoint.Name]string{
		failpoint.ShimMade: "kill", failpoint.ShimStarts: "kill", failpoint.ShimWritten: "error",
	} {
		t.Run(string(at)+" "+what, func(t *testing.T) {
			data := t.TempDir()
			d := open(t, data)
			var err error
			if d.options.Failpoints, err = failpoint.Parse(string(at) + "=" + what); err != nil {
				t.Fatal(err)
			}
			f := drivertest.Fence("s", 1)
			if _, err := d.Start(limited(t), f, counting, drivertest.Begin); err == nil || driver.KindOf(err) == driver.Broken {
				t.Errorf("Start gives %v", err)
			}
			d.options.Failpoints = nil
			if all, err := d.Recover(limited(t)); err != nil || len(all) > 0 {
				t.Errorf("Recover gives %+v, %v", all, err)
			}
			if _, err := d.Start(limited(t), f, counting, func(context.Context) error { return nil }); err != nil {
				t.Errorf("the next Start gives %v", err)
			}
			if err := d.Stop(limited(t), f); err != nil {
				t.Error(err)
			}
		})
	}
}
