package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStart looks where a started process is, in each hierarchy, what it gets and how it is called.
func TestStart(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		said, says, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		cmd := exec.Command("/bin/sh", "-c", `cat /proc/self/cgroup >&3; echo "$0 $1 $HOME $PWD" >&3; readlink /proc/self/fd/0 >&3; exec sleep 1000`, "a b", "c")
		cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"HOME=/h"}, "/", []*os.File{says}
		if err := g.Start(cmd); err != nil {
			t.Fatal(err)
		}
		says.Close()
		pids, err := g.Pids()
		if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
			t.Errorf("the group has %v (%v), want %d", pids, err, cmd.Process.Pid)
		}
		text := make([]byte, 1<<14)
		n := 0
		for !strings.HasSuffix(string(text[:n]), "/dev/null\n") {
			m, err := said.Read(text[n:])
			if err != nil {
				t.Fatalf("%v after %q", err, text[:n])
			}
			n += m
		}
		if got := strings.Count(string(text[:n]), "/"+filepath.Join(h.parent, g.name)+"\n"); got != len(h.layout.mounts) {
			t.Errorf("it is in %d groups of %d:\n%s", got, len(h.layout.mounts), text[:n])
		}
		if !strings.Contains(string(text[:n]), "\na b c /h /\n/dev/null\n") {
			t.Errorf("it says\n%s", text[:n])
		}
		if err := g.Kill(within(t, 20e9)); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
}

// TestStartOfNothing looks that a program that isn't there, or whose group isn't, runs nowhere.
func TestStartOfNothing(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		mark := filepath.Join(t.TempDir(), "ran")
		gone := h.group("gone")
		if err := gone.Start(exec.Command("/bin/sh", "-c", "touch "+mark)); err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("in a group that isn't there it gives %v", err)
		}
		if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it ran outside (%v)", err)
		}
		g := create(t, h, Limits{})
		cmd := exec.Command("/bin/true")
		cmd.Stdin = os.Stdin
		if err := g.Start(cmd); err == nil {
			t.Error("its input is lost in silence")
		}
	})
}

// TestStartOfOwnProgram starts what only this process finds below /proc/self.
func TestStartOfOwnProgram(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		b, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.MemfdCreate("true", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "true")
		defer f.Close()
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		high, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 100)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(high)
		cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", high))
		if err := g.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestTake has a process move to another group, and stops on the way, as a caller that is killed: who
// kills the first group finds it, and the groups can be removed.
func TestTake(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		from, to := create(t, h, Limits{}), create(t, h, Limits{})
		cmd := exec.Command("/bin/sleep", "1000")
		if err := from.Start(cmd); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		freezes := to.h.layout.serves[freezer]
		missing := filepath.Join(to.dir(freezes), "cgroup.procs")
		if len(h.layout.mounts) > 1 {
			broken := &Group{h: &Hierarchy{layout: h.layout, parent: h.parent}, name: to.name}
			broken.h.layout.mounts = slices.Clone(h.layout.mounts)
			broken.h.layout.mounts[freezes].point = t.TempDir()
			if err := broken.Take(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("without a freezer it gives %v", err)
			}
			for i := range h.layout.mounts {
				in, err := readPids(to.dir(i))
				if err != nil || slices.Contains(in, cmd.Process.Pid) == (i == freezes) {
					t.Errorf("on the way %s has %v (%v)", h.layout.mounts[i], in, err)
				}
			}
		}
		if err := to.Take(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(missing); err != nil || strings.TrimSpace(string(b)) != fmt.Sprint(cmd.Process.Pid) {
			t.Errorf("%s has %q (%v)", missing, b, err)
		}
		if err := to.Kill(within(t, 20e9)); err != nil {
			t.Error(err)
		}
		<-ended
	})
}
