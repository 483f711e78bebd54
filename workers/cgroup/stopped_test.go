package cgroup

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// To attach to a process that is stopped and frozen by version 1 doesn't return
// until that process is moved.
func TestStopped(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g, beside := create(t, h, Limits{}), create(t, h, Limits{})
		p := start(t, g, "echo here; read a; echo $a")
		p.expect(t, "here")
		start(t, g, "echo other; read a").expect(t, "other")
		pid := p.Process.Pid
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		err := poll(within(t, 10*time.Second), func() (bool, error) { return stopped(pid), nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Freeze(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		found, err := g.Stopped()
		if err != nil {
			t.Fatal(err)
		}
		want := []int{pid}
		if _, version, _ := g.serving(freezer); version == 2 {
			want = nil
		}
		if !slices.Equal(found, want) {
			t.Errorf("found %v, want %v", found, want)
		}
		attached(t, g, pid, func() error {
			if want == nil {
				return nil
			}
			return beside.AddToFreezer(pid)
		})
		for _, pid := range append(want, 1<<22) { // the last one doesn't exist
			if err := g.AddToFreezer(pid); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		if all, err := g.Pids(); err != nil || !slices.Contains(all, pid) {
			t.Errorf("the group has %v (%v), want %d in it again", all, err, pid)
		}
	})
}

// attached attaches to a process, with some help, and detaches from it.
func attached(t *testing.T, g *Group, pid int, help func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine, and so lets go.
		runtime.LockOSThread()
		done <- unix.PtraceSeize(pid)
	}()
	if err := help(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		_ = g.Thaw() // or it waits for ever
		t.Fatal("to attach to it hangs")
	}
}
