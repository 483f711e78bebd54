package rpc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOptionsByField decodes what is sent, as criu does.
func TestOptionsByField(t *testing.T) {
	o := Options{
		ImagesDir: "/images", PID: 42, LogLevel: 2, LogFile: "log", Root: "/root", LeaveRunning: true, TCPClose: true,
		GhostLimit: 1 << 29, FreezeCgroup: "/freezer", EmptyNetwork: true, External: []string{"a", "b"},
		Inherit: []Inherited{{Key: "pipe:[1]", FD: 4}},
	}
	numbers, texts := map[int]uint64{}, map[int]string{}
	err := fields(o.encode(), func(field int, v uint64, b []byte) error {
		if b == nil {
			numbers[field] = v
		} else {
			texts[field] += string(b) + ";"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[int]uint64{1: ^uint64(0), 2: 42, 3: 1, 9: 2, 12: 1, 34: 0, 35: 1 << 29, 38: 0x40000000, 46: 1, 52: 1, 64: 3} {
		if got, ok := numbers[field]; !ok || got != want {
			t.Errorf("field %d is %d (%t), want %d", field, got, ok, want)
		}
	}
	for field, want := range map[int]string{68: "/images;", 10: "log;", 13: "/root;", 44: "/freezer;", 37: "a;b;"} {
		if texts[field] != want {
			t.Errorf("field %d is %q, want %q", field, texts[field], want)
		}
	}
	if !bytes.Contains([]byte(texts[27]), []byte("pipe:[1]")) {
		t.Errorf("field 27 is %q", texts[27])
	}
	for _, field := range []int{5, 7, 26} {
		if _, ok := numbers[field]; ok {
			t.Errorf("field %d is sent though it isn't set", field)
		}
	}
}

func TestDamagedResponses(t *testing.T) {
	whole := message{}
	whole.number(1, typeNotify)
	whole.number(2, 1)
	var n message
	n.text(1, "post-dump")
	n.number(2, 7)
	whole.bytes(5, n)
	r, err := decodeResponse(whole)
	if err != nil || r.kind != typeNotify || r.script != "post-dump" || r.pid != 7 || !r.success {
		t.Errorf("a response is %+v, %v", r, err)
	}
	if _, err := decodeResponse(whole[:len(whole)-1]); err == nil {
		t.Error("half a response is taken")
	}
	if _, err := decodeResponse([]byte{0x0f}); err == nil {
		t.Error("a field of unknown kind is taken")
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte{8, 6, 16, 1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = decodeResponse(b) // must not panic
	})
}

// fake is a criu that does what script says with its socket, descriptor 3.
func fake(t *testing.T, script string) []string {
	t.Helper()
	path := t.TempDir() + "/criu"
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func TestCriuThatEnds(t *testing.T) {
	p, err := Start(fake(t, "exit 1\n"), Here)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Dump(Options{}, func(Notice) error { return nil }); err == nil {
		t.Error("a criu that ends without a word has dumped")
	}
}

func TestCriuThatMayNotRun(t *testing.T) {
	ran := t.TempDir() + "/ran"
	no := errors.New("no")
	if _, err := Start(fake(t, "touch "+ran+"\n"), func(*exec.Cmd) error { return no }); !errors.Is(err, no) {
		t.Errorf("Start gives %v", err)
	}
	if _, err := os.Stat(ran); !errors.Is(err, unix.ENOENT) {
		t.Error("criu ran outside its cgroup")
	}
}

func TestFailure(t *testing.T) {
	for want, f := range map[string]*Failure{
		"said":           {Text: "said", Errno: 5},
		"criu: input":    {Errno: unix.EIO},
		"mine":           {Caller: errors.New("mine"), Text: "said"},
		"without saying": {},
	} {
		if !strings.Contains(f.Error(), want) {
			t.Errorf("%+v reads %q, want %q", *f, f.Error(), want)
		}
	}
}

// TestHeld has a criu told of its last step, and of another one: the last isn't answered, and
// criu has both ends of its socket.
func TestHeld(t *testing.T) {
	path := t.TempDir() + "/criu.py"
	if err := os.WriteFile(path, []byte(`
import socket
s, other = socket.socket(fileno=3), socket.socket(fileno=4)
def notice(step):
    n = bytes([10, len(step)]) + step
    s.send(bytes([8, 6, 16, 1, 42, len(n)]) + n)
s.recv(65536)
notice(b"pre-resume")
notice(b"post-resume")
s.recv(65536)
try:
    s.recv(65536, socket.MSG_DONTWAIT)
    said = b"both were answered"
except BlockingIOError:
    other.send(b"x")
    said = b"as it should be" if s.recv(1) == b"x" else b"something was sent"
s.send(bytes([8, 2, 16, 0, 74, len(said)]) + said)
`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := StartHeld([]string{"/usr/bin/python3", path}, Here)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	_, err = p.Restore(Options{}, func(n Notice) error {
		told = append(told, n.Step)
		return nil
	})
	var f *Failure
	if !errors.As(err, &f) || f.Text != "as it should be" || strings.Join(told, " ") != "pre-resume post-resume" {
		t.Errorf("it is told of %v, and ends with %v", told, err)
	}
}

// TestEndedUnasked ends a criu that waits for a request that never comes.
func TestEndedUnasked(t *testing.T) {
	p, err := StartHeld(fake(t, "exec sleep 1000\n"), Here)
	if err != nil {
		t.Fatal(err)
	}
	p.End()
	if p.cmd.ProcessState == nil {
		t.Error("it wasn't waited for")
	}
}
