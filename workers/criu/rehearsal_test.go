package criu

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// rehearse captures a session with a rehearsal.
func (s *session) rehearse(which schemas.Rehearse) (*drivertest.Image, driver.Captured, error) {
	s.t.Helper()
	img := &drivertest.Image{}
	c, err := s.d.CaptureRehearsed(limited(s.t), s.next(), img, which)
	return img, c, err
}

// checking begins one of the programs that check themselves, which is ready.
func checking(t *testing.T, d *Driver, name string) *session {
	t.Helper()
	prelude, all := readPrograms(t)
	i := slices.IndexFunc(all, func(p checked) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("there is no program %s", name)
	}
	s := begin(t, d, name, all[i].spec(prelude))
	s.want("ready")
	return s
}

func TestRehearsal(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "rehearsed", counting)
	for range 2 {
		img, c, err := s.rehearse(schemas.RehearseAlways)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Rehearsed || len(c.Warnings) > 0 {
			t.Errorf("rehearsed: %t, with warnings %v", c.Rehearsed, c.Warnings)
		}
		if err := s.d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		s.resume(img, schemas.BootResume)
		count(t, s.d, s.uid)
	}
}

// TestRehearsalWarnsOnce has a session rehearsed that loses what preflight warns of: the
// rehearsal finds it as well, and adds nothing.
func TestRehearsalWarnsOnce(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "once", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import ctypes, os, socket, time
ends = socket.socketpair()
for n in 0, 1:
    if os.fork() == 0: # the other end is the parent's, which has neither
        ends[1 - n].close(); ends[n].recv(1)
for end in ends:
    end.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"x", u.getsockname()); u.recv(1, socket.MSG_PEEK)
libc = ctypes.CDLL(None); os.mkdir("/tmp/watched")
assert libc.inotify_add_watch(libc.inotify_init(), b"/tmp/watched", 0x100) > 0; open("/tmp/watched/new", "w")
print("ready", flush=True)
time.sleep(1000)`}})
	s.want("ready")
	_, c, err := s.rehearse(schemas.RehearseAlways)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range c.Warnings {
		if got = append(got, w.Text); w.Code == schemas.WarnDiffers {
			t.Errorf("its rehearsal warns: %s", w.Text)
		}
	}
	matchAll(t, "it warns", got, []string{"datagrams that wait in a UDP socket", "bytes of inotify events", "SO_PEERCRED"})
}

// TestRehearsalOfTalk rehearses a session whose connections always have bytes that were read and
// aren't acknowledged yet: the acknowledgement goes with the answer, 30 ms later.
func TestRehearsalOfTalk(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "talk", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
def talk(end, begins):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        if not begins:
            end.recv(18)
        begins = False
        time.sleep(0.03)
        end.sendall(b"eighteen bytes----")
for n in range(16):
    client = socket.create_connection(server.getsockname())
    for end, begins in (client, True), (server.accept()[0], False):
        threading.Thread(target=talk, args=(end, begins)).start()
time.sleep(0.2)
print("ready", flush=True)`}})
	s.want("ready")
	for range 3 {
		img, _, err := s.rehearse(schemas.RehearseAlways)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		s.resume(img, schemas.BootResume)
	}
}

// TestRehearsalOfPrograms rehearses programs with what the kernel keeps for a process: it warns of what
// their rows say, and of nothing else.
func TestRehearsalOfPrograms(t *testing.T) {
	t.Parallel()
	_, all := readPrograms(t)
	for i, p := range all {
		if len(p.details("refused")) > 0 || i%4 > 0 && os.Getenv("DIAPAUSE_LONG") == "" { // the others run with make test-long
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := checking(t, open(t, t.TempDir()), p.name)
			_, c, err := s.rehearse(schemas.RehearseAlways)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range c.Warnings {
				got = append(got, w.Text)
			}
			matchAll(t, "it warns", got, append(p.details("warned"), p.details("rehearsed")...))
		})
	}
}

// released is CRIU without this project's patches.
func released(t *testing.T) []string {
	t.Helper()
	command, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(command[len(command)-1]), "../../*/bin/criu"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if _, err := os.Stat(f + ".mends"); err != nil {
			return []string{f}
		}
	}
	t.Fatalf("there is no CRIU as it is released among %v: run workers/criu/install/install.sh", found)
	return nil
}

// TestRehearsalFinds has the CRIU as it is released restore what it restores wrongly, and no
// look before the dump finds: each suspend is refused with the aspect that would be lost, and the session runs on.
func TestRehearsalFinds(t *testing.T) {
	t.Parallel()
	command := released(t)
	for name, want := range map[string]string{
		"terminal": "controlling terminal", "process": "CPU affinity",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, t.TempDir())
			d.options.Criu = command
			s := checking(t, d, name)
			_, _, err := s.rehearse(schemas.RehearseAlways)
			var refused *driver.Error
			if !errors.As(err, &refused) || refused.Kind != driver.Unrestorable || !strings.Contains(refused.Text, want) {
				t.Errorf("its rehearsal ends with %v, want %s", err, want)
			}
			if i, err := s.d.Inspect(limited(t), s.uid); err != nil || i.State != driver.Running {
				t.Errorf("after it the session is %+v, %v", i, err)
			}
		})
	}
}
