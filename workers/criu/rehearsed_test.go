package criu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// layerDigest stands for the files that a session has made: names, modes, sizes, contents.
func layerDigest(t *testing.T, d *Driver, s *session) string {
	t.Helper()
	i, err := d.Inspect(limited(t), s.uid)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/sh", "-c", `cd "$1" && find . -type d -printf '%p %m %U %G\n' -o -printf '%p %m %U %G %s %l %T@ %n\n' | sort && find . -type f -size -1024k -exec sha256sum {} + | sort`,
		"sh", fmt.Sprintf("/proc/%d/root/srv/files", i.PID)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestRehearsalLeavesNothing has a session with files of each kind rehearsed in each way: its
// own files stay as they are, and nothing of the copy is left.
func TestRehearsalLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, way := range []driver.Way{driver.WayMemory, driver.WayBuffered, driver.WayStream} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			d := openWay(t, t.TempDir(), way, 0)
			s := begin(t, d, "files", answering(`
				mkdir("/srv/files"); open(my $large, "+>", "/srv/files/large") or die; seek($large, 300 << 20, 0); print $large "end"; $large->flush;
				open(my $gone, "+>", "/srv/files/gone") or die; print $gone "ghost" x 300000; $gone->flush; unlink("/srv/files/gone");
				open(my $linked, "+>", "/srv/files/linked") or die; print $linked "remap"; $linked->flush; link("/srv/files/linked", "/srv/files/other"); unlink("/srv/files/linked");
				open(my $shm, "+>", "/dev/shm/memory") or die; print $shm "s" x 100000; $shm->flush;
			`, `seek($gone, 0, 2); seek($shm, 0, 2); seek($linked, 0, 0); join(" ", tell($gone), tell($shm), scalar(<$linked>), -s "/srv/files/large")`))
			s.want("ready")
			s.sh("sync")
			before := layerDigest(t, d, s)
			img, c, err := s.rehearse(schemas.RehearseAlways)
			if err != nil {
				t.Fatal(err)
			}
			if !c.Rehearsed {
				t.Error("it wasn't rehearsed")
			}
			if after := layerDigest(t, d, s); after != before {
				t.Errorf("its files were\n%s\nand are\n%s", before, after)
			}
			s.nothingLeft()
			if err := s.d.Stop(limited(t), s.next()); err != nil {
				t.Fatal(err)
			}
			s.resume(img, schemas.BootResume)
			if got := s.ask("1", "sizes"); got != "1500000 100000 remap 314572803" {
				t.Errorf("after a resume it says %s", got)
			}
		})
	}
}

// nothingLeft looks for what a rehearsal may leave.
func (s *session) nothingLeft() {
	s.t.Helper()
	if _, ok := s.d.shims.hierarchy.Group(shim.RehearsalGroup(s.uid)); ok {
		s.t.Error("the rehearsal's cgroup is left")
	}
	if _, err := os.Stat(filepath.Join(s.d.dir.session(s.uid), "scratch", "rehearsal")); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("the rehearsal's directory is left: %v", err)
	}
}

// TestRehearsalOfWhatChanged has a session that does nothing rehearsed once, and again when
// it has something else open.
func TestRehearsalOfWhatChanged(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "changed", answering(`my @open;`, `open(my $f, "<", "/etc/passwd"); push(@open, $f); scalar(@open)`))
	s.want("ready")
	var was []string
	for _, ask := range []string{"", "", "", "1"} {
		if ask != "" {
			s.ask(ask, "open")
		}
		img, c, err := s.rehearse(schemas.RehearseChanged)
		if err != nil {
			t.Fatal(err)
		}
		did := "no"
		if c.Rehearsed {
			did = "yes"
		}
		was = append(was, did)
		if err := s.d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		s.resume(img, schemas.BootResume)
	}
	if got := strings.Join(was, " "); got != "yes no no yes" {
		t.Errorf("rehearsed: %s", got)
	}
}

// setting is a session that does what it is asked for in Python, and says so.
var setting = schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import ctypes, fcntl, os, signal, socket
libc = ctypes.CDLL(None)
class Spec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]
os.mkfifo("/tmp/ask"); r, w = os.pipe(); left, right = socket.socketpair(); ticks = libc.timerfd_create(1, 0)
a, b = open("/tmp/a", "w"), open("/tmp/b", "w"); changes = libc.inotify_init()
print("ready", flush=True)
n = 0
while True:
    with open("/tmp/ask") as ask:
        for line in ask:
            exec(line)
            n += 1; print("answer %d: done" % n, flush=True)`}}

// TestRehearsalOfChangedState has a session whose shape stays the same rehearsed again when a
// queue, a timer, a lock or a signal has changed, and only then.
func TestRehearsalOfChangedState(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "state", setting)
	s.want("ready")
	captured := func(after string, want bool) {
		t.Helper()
		_, c, err := s.rehearse(schemas.RehearseChanged)
		if err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		if err := s.d.Thaw(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		if c.Rehearsed != want {
			t.Errorf("after %s it was rehearsed: %t, want %t", after, c.Rehearsed, want)
		}
	}
	captured("its start", true)
	captured("nothing", false)
	asked := 0
	for i, change := range []struct{ what, code string }{
		{"data in a pipe", `os.write(w, b"x")`},
		{"data in a socket", `left.send(b"x")`},
		{"a timerfd that is set", `libc.timerfd_settime(ticks, 0, ctypes.byref(Spec((0, 0), (9000, 0))), None)`},
		{"its interval", `libc.timerfd_settime(ticks, 0, ctypes.byref(Spec((7000, 0), (9000, 0))), None)`},
		{"a lock of the process", `fcntl.lockf(a, fcntl.LOCK_EX)`},
		{"a lock of the file", `fcntl.flock(b, fcntl.LOCK_SH)`},
		{"a pending signal", `signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); os.kill(os.getpid(), signal.SIGUSR1)`},
		{"an ignored signal", `signal.signal(signal.SIGUSR2, signal.SIG_IGN)`},
	} {
		if i%2 > 0 && os.Getenv("DIAPAUSE_LONG") == "" { // the others run with make test-long
			continue
		}
		asked++
		s.ask(fmt.Sprint(asked), change.code)
		captured(change.what, true)
	}
	captured("nothing more", false)
}
