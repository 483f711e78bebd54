package criu

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/criu/core"
)

// TestShimTakesItsSession kills a shim while no worker is there to notice it: the kernel ends
// the session's processes, also those of a session that was restored, from an image of today
// or one that was made before inits were told to end with their shim.
func TestShimTakesItsSession(t *testing.T) {
	t.Parallel()
	for _, way := range []driver.Way{driver.WayMemory, driver.WayStream} {
		for _, c := range []string{"started", "restored", "restored from an older image"} {
			t.Run(string(way)+" "+c, func(t *testing.T) {
				t.Parallel()
				data := t.TempDir()
				d := openWay(t, data, way, 0)
				s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sleep", "1000"}})
				if c != "started" {
					img := s.suspend()
					if c != "restored" {
						img = withoutParent(t, img)
					}
					s.resume(img, schemas.BootResume)
				}
				i, err := d.Inspect(limited(t), s.uid)
				if err != nil {
					t.Fatal(err)
				}
				leader := openProcess(t, i.PID)
				init := openProcess(t, parentOf(t, i.PID))
				shimPID := s.shimPID()
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				if err := unix.Kill(shimPID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				awaitEnd(t, "the session's init", init)
				awaitEnd(t, "the session's leader", leader)
				s.d = openWay(t, data, way, 0)
				if found, err := s.d.Recover(limited(t)); err != nil || len(found) != 1 || !found[0].Lost {
					t.Errorf("the next worker finds %+v, %v", found, err)
				}
			})
		}
	}
}

// withoutParent gives the image as it was made when inits weren't told to end with their shim.
func withoutParent(t *testing.T, img *drivertest.Image) *drivertest.Image {
	t.Helper()
	old, changed := &drivertest.Image{}, false
	for _, e := range img.Entries() {
		b, _ := img.Content(e.Name)
		if path.Base(e.Name) == "core-1.img" {
			var err error
			if b, err = core.SetParentDeathSignal(b, 0); err != nil {
				t.Fatal(err)
			}
			e.Size, changed = int64(len(b)), true
		}
		if err := old.Add(e, strings.NewReader(string(b))); err != nil {
			t.Fatal(err)
		}
	}
	if !changed {
		t.Fatal("the image has no state of its init")
	}
	return old
}

func (s *session) shimPID() int {
	s.t.Helper()
	c, err := s.d.shims.dial(limited(s.t), "unixpacket", shim.ControlSocket(s.uid))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	var who *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if controlErr != nil || err != nil {
		s.t.Fatal(controlErr, err)
	}
	return int(who.Pid)
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var parent int
		if n, _ := fmt.Sscanf(line, "PPid: %d", &parent); n == 1 {
			return parent
		}
	}
	t.Fatalf("process %d has no parent", pid)
	return 0
}

func openProcess(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("open process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func awaitEnd(t *testing.T, what string, pidfd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(drivertest.Limit.Milliseconds()))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			t.Fatal(err)
		case n == 0:
			t.Fatalf("%s lives on without its shim", what)
		}
		return
	}
}
