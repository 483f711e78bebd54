package criu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// stateful is a session with something of each kind that a restore could bring back otherwise. It
// says the pids that its images name.
var stateful = schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import ctypes, fcntl, os, signal, socket, struct, time
libc = ctypes.CDLL(None)
class Spec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]
far = Spec((7654321, 0), (9000, 0))
ticks = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
assert libc.timerfd_settime(ticks, 0, ctypes.byref(far), None) == 0
event = ctypes.create_string_buffer(struct.pack("Qii", 7654321, signal.SIGUSR2, 0), 64); timer = ctypes.c_int()
assert libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, ctypes.byref(far), None) == 0
os.mkdir("/tmp/watched"); changes = libc.inotify_init()
assert libc.inotify_add_watch(changes, b"/tmp/watched", 0x300) == 1
r, w = os.pipe(); os.write(w, b"what is in the pipe")
left, right = socket.socketpair(); left.send(b"what is in the socket")
f = open("/tmp/locked", "w+"); fcntl.lockf(f, fcntl.LOCK_EX, 7654321, 5)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
os.kill(os.getpid(), signal.SIGUSR2)
child = os.fork()
if child == 0:
    os.setsid(); os.write(w, b"!")
    while True:
        signal.pause()
while os.getsid(child) != child:
    time.sleep(0.01)
print("ready", os.getpid(), child, flush=True)
while True:
    time.sleep(1000)`}}

// edit is a change of an image, and what its rehearsal says.
type edit struct {
	what, files string // of criu's images
	change      func(b []byte) []byte
	want        string
	warned      bool // the suspend is not refused
}

// edits are those of a session whose first process and its child have these pids.
func edits(pid, child byte) []edit {
	const seconds = 7654321
	field := func(number byte, v uint64) []byte { return binary.AppendUvarint([]byte{number << 3}, v) }
	join := func(fields ...[]byte) []byte { return bytes.Join(fields, nil) }
	return []edit{
		{"timerfd", "files.img", exchanged(field(9, seconds), field(9, seconds+1)), `interval is "(7654322, 0)" instead of`, false},
		{"POSIX timer", "core-*.img", exchanged(join(field(3, 12), field(4, 0), field(5, seconds)), join(field(3, 10), field(4, 0), field(5, seconds))), `signal is "10" instead of "12"`, false},
		{"watch", "files.img", exchanged(field(3, 0x300), field(3, 0x100)), `watch 1 is "100" instead of "300"`, false},
		{"pipe's queue", "pipes-data.img", shortened("what is in the pipe!"), `bytes in it is "19" instead of "20"`, false},
		{"socket's queue", "sk-queues.img", shortened("what is in the socket"), `bytes in it is "20" instead of "21"`, false},
		{"lock", "filelocks.img", exchanged(field(6, seconds), field(6, seconds+1)), "lock is", true},
		{"pending signal", "core-*.img", exchanged([]byte{0x80, 1, 12, 0, 0, 0}, []byte{0x80, 1, 10, 0, 0, 0}), "pending signals is", false},
		{"session", "pstree.img", exchanged(join(field(3, uint64(child)), field(4, uint64(child))), join(field(3, uint64(pid)), field(4, uint64(pid)))), "session and group is", false},
	}
}

// exchanged changes what is there once.
func exchanged(was, is []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		if bytes.Count(b, was) != 1 {
			return nil
		}
		return bytes.Replace(b, was, is, 1)
	}
}

// shortened takes the last byte off a text that follows an entry with its length.
func shortened(text string) func([]byte) []byte {
	return func(b []byte) []byte {
		at := bytes.Index(b, []byte(text))
		if at < 0 {
			return nil
		}
		length := bytes.LastIndex(b[:at], []byte{2 << 3, byte(len(text))})
		if length < 0 {
			return nil
		}
		b[length+1]--
		end := at + len(text)
		return append(b[:end-1], b[end:]...)
	}
}

// apply changes the one of the images that the edit is for.
func (e edit) apply(t *testing.T, images string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(images, e.files))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := e.change(b)
		if changed == nil {
			continue
		}
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: none of %v has what is to be changed, or it has it twice", e.what, files)
}

// TestRehearsalFindsChanges has images changed before they are rehearsed, one thing at a time: criu
// restores them without an error, and the comparison names what is otherwise.
func TestRehearsalFindsChanges(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "edited", stateful)
	s.want("ready")
	var pid, child byte
	if _, err := fmt.Sscanf(output(t, s.d, s.uid), "ready %d %d", &pid, &child); err != nil {
		t.Fatal(err)
	}
	for i, e := range edits(pid, child) {
		if i%4 > 0 && os.Getenv("DIAPAUSE_LONG") == "" { // the others run with make test-long
			continue
		}
		t.Run(e.what, func(t *testing.T) {
			img := &drivertest.Image{}
			captured, err := s.stoppedWith(limited(t), img, failpoint.ShimRehearses, func(shimPID int) {
				e.apply(t, filepath.Join(fmt.Sprintf("/proc/%d/root", shimPID), s.d.dir.session(s.uid), "scratch", "rehearsal", "criu"))
			})
			if !e.warned {
				s.wantDiffering(err, e.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(captured.Warnings) != 1 || captured.Warnings[0].Code != schemas.WarnDiffers || !strings.Contains(captured.Warnings[0].Text, e.want) {
				t.Errorf("it warns of %v, want %q", captured.Warnings, e.want)
			}
			if err := s.d.Thaw(limited(t), s.next()); err != nil {
				t.Fatal(err)
			}
		})
	}
	s.rehearsed()
}
