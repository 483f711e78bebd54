package criu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

// TestKilledBeforeItRan kills processes of a tree, or criu, with SIGKILL at each step of a
// restore that comes before the tree's first instruction: the restore fails, the session
// has not run, and the same image is restored again.
func TestKilledBeforeItRan(t *testing.T) {
	t.Parallel()
	for way, victims := range map[driver.Way][]string{driver.WayMemory: {"init", "leader", "child", "criu"}, driver.WayStream: {"child", "criu"}} {
		t.Run(string(way), func(t *testing.T) {
			d := openWay(t, t.TempDir(), way, 0)
			s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sh", "-c", "sleep 1000 & " + counting.Command[2]}})
			count(t, d, "s")
			img := s.suspend()
			for _, at := range []failpoint.Name{failpoint.ShimRestored, failpoint.ShimBegins, failpoint.ShimNoted, failpoint.ShimTraced, failpoint.ShimHeld} {
				for _, victim := range victims {
					if victim == "criu" && at == failpoint.ShimHeld {
						continue // it is gone
					}
					if victim == "criu" && at == failpoint.ShimTraced && slices.Contains(mends.Missing(d.options.Criu), mends.ExitKill) {
						continue // what it traces runs on then
					}
					t.Run(string(at)+" "+victim, func(t *testing.T) { s.killedAt(t, img, at, victim) })
				}
			}
			s.resume(img, schemas.BootResume)
			count(t, d, "s") // the first number after the resume follows the last before
		})
	}
}

// killedAt restores the session, kills a process when the shim is at one step, and looks
// that nothing has run.
func (s *session) killedAt(t *testing.T, img *drivertest.Image, at failpoint.Name, victim string) {
	d, marks := s.d, t.TempDir()
	points, err := failpoint.Parse(fmt.Sprintf("%s=stop;once=%s", at, marks))
	if err != nil {
		t.Fatal(err)
	}
	d.options.Failpoints = points
	defer func() { d.options.Failpoints = nil }()
	f := s.next()
	failed := make(chan error, 1)
	go func() {
		_, err := d.Restore(limited(t), f, s.spec, img, schemas.BootResume, drivertest.Begin)
		failed <- err
	}()
	stopped := s.stoppedShim(t, filepath.Join(marks, string(at)+"@1"))
	pid := s.find(t, stopped, victim)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if victim == "criu" || at != failpoint.ShimTraced && at != failpoint.ShimHeld { // what stands still dies later
		awaitState(t, pid, "ZX")
	}
	if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || driver.KindOf(err) != driver.Transient || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Restore gives %v, of kind %s", err, driver.KindOf(err))
	}
	if i, err := d.Inspect(limited(t), "s"); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("Inspect gives %+v, %v", i, err)
	}
}

// stoppedShim waits until a failpoint has stopped a shim, by the mark that it leaves.
func (s *session) stoppedShim(t *testing.T, mark string) int {
	t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		b, err := os.ReadFile(mark)
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 0 {
			awaitState(t, pid, "T")
			return pid
		}
	}
	t.Fatalf("no shim comes to %s", mark)
	return 0
}

// find gives a process of the tree that is being restored below a shim.
func (s *session) find(t *testing.T, shimPID int, which string) int {
	t.Helper()
	below := func(pid int) []int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			t.Fatal(err)
		}
		var all []int
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			all = append(all, n)
		}
		return all
	}
	var init, criu int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", shimPID))
	for _, file := range tasks {
		b, _ := os.ReadFile(file)
		for _, f := range strings.Fields(string(b)) {
			pid, _ := strconv.Atoi(f)
			if strings.HasSuffix(strings.TrimSpace(nsPid(pid)), "\t1") {
				init = pid
			} else {
				criu = pid
			}
		}
	}
	found := 0
	switch which {
	case "criu":
		found = criu
	case "init":
		found = init
	case "leader":
		found = below(init)[0]
	case "child":
		for _, pid := range below(below(init)[0]) {
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(b), "1000") {
				found = pid
			}
		}
	}
	if found == 0 {
		t.Fatalf("no %s is found below shim %d", which, shimPID)
	}
	return found
}

func nsPid(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return rest
		}
	}
	return ""
}

// awaitState waits until a process is in one of some states, as /proc has them, or gone if
// X is among them.
func awaitState(t *testing.T, pid int, states string) {
	t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			if strings.Contains(states, "X") {
				return
			}
			t.Fatal(err)
		}
		if i := strings.LastIndexByte(string(b), ')'); i > 0 && strings.ContainsRune(states, rune(b[i+2])) {
			return
		}
	}
	t.Fatalf("process %d doesn't come to state %s", pid, states)
}

// TestLimitBelowTheImage restores a session into a memory limit that it doesn't fit into:
// it has not run, the error names the limit, and a higher one brings it back.
func TestLimitBelowTheImage(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `$| = 1; my $x = "x" x 60_000_000; for (my $i = 1; ; $i++) { print "$i\n"; select(undef, undef, undef, 0.01) }`}})
	count(t, d, "s")
	img := s.suspend()
	low := s.spec
	low.Memory = 20 << 20
	_, err := d.Restore(limited(t), s.next(), low, img, schemas.BootResume, drivertest.Begin)
	text, hint := driver.HintOf(err)
	if driver.KindOf(err) != driver.Refused || !strings.Contains(text, "memory limit") || !strings.Contains(hint, "raise the limit") {
		t.Errorf("Restore gives %v, of kind %s", err, driver.KindOf(err))
	}
	if i, err := d.Inspect(limited(t), "s"); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("Inspect gives %+v, %v", i, err)
	}
	s.resume(img, schemas.BootResume)
	count(t, d, "s")
}

// TestKilledByTheKernel has the out-of-memory killer end a process of a tree that is being
// restored, by a limit of the session's cgroup that isn't of Diapause.
func TestKilledByTheKernel(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `$| = 1; my $x = "x" x 60_000_000; for (my $i = 1; ; $i++) { print "$i\n"; select(undef, undef, undef, 0.01) }`}})
	count(t, d, "s")
	img := s.suspend()
	marks := t.TempDir()
	var err error
	if d.options.Failpoints, err = failpoint.Parse(fmt.Sprintf("%s=stop;once=%s", failpoint.ShimFilled, marks)); err != nil {
		t.Fatal(err)
	}
	f := s.next()
	failed := make(chan error, 1)
	go func() {
		_, err := d.Restore(limited(t), f, s.spec, img, schemas.BootResume, drivertest.Begin)
		failed <- err
	}()
	stopped := s.stoppedShim(t, filepath.Join(marks, string(failpoint.ShimFilled)+"@1"))
	group, ok := d.shims.hierarchy.Group(shim.SessionGroup("s"))
	if !ok {
		t.Fatal("the session has no cgroup")
	}
	if err := group.SetLimits(cgroup.Limits{Memory: 40 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	err = <-failed
	text, hint := driver.HintOf(err)
	if driver.KindOf(err) != driver.Transient || !strings.Contains(text, "no memory") || hint == "" {
		t.Errorf("Restore gives %v, of kind %s", err, driver.KindOf(err))
	}
	d.options.Failpoints = nil
	s.resume(img, schemas.BootResume)
	count(t, d, "s")
}
