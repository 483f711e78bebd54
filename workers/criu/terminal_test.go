package criu

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// keyboard is a client that types into a session's terminal.
type keyboard struct {
	t    *testing.T
	keys *io.PipeWriter
	done chan error
}

func attachTo(t *testing.T, d *Driver, s *session, size attach.Size) *keyboard {
	t.Helper()
	conn, err := d.Dial(limited(t), s.uid)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	k := &keyboard{t: t, keys: w, done: make(chan error, 1)}
	go func() {
		_, err := attach.Do(conn, attach.Request{Op: attach.OpAttach, Rows: size.Rows, Cols: size.Cols}, attach.Streams{Stdin: r})
		k.done <- err
	}()
	t.Cleanup(func() { w.Close() })
	return k
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	if _, err := io.WriteString(k.keys, keys); err != nil {
		k.t.Fatal(err)
	}
}

// lost waits until the session's end has ended the connection.
func (k *keyboard) lost() {
	k.t.Helper()
	select {
	case <-k.done:
	case <-time.After(drivertest.Limit):
		k.t.Fatal("a client is still attached to a session that isn't there")
	}
}

func shell(t *testing.T, d *Driver) *session {
	t.Helper()
	return begin(t, d, "s", schemas.Spec{
		Command: []string{"/bin/bash", "--norc", "--noprofile", "-i"}, TTY: true,
		Env: []string{"PS1=$ ", "TERM=dumb"},
	})
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := shell(t, d)
	k := attachTo(t, d, s, attach.Size{Rows: 40, Cols: 120})
	k.press("tty; stty size; a=remembered; sleep 1000 & echo first-$((1+1))\n")
	s.want("first-2")
	if out := output(t, d, s.uid); !strings.Contains(out, "/dev/pts/0") || !strings.Contains(out, "40 120") {
		t.Errorf("the terminal is %q", out)
	}
	s.suspend2(k)
	k = attachTo(t, d, s, attach.Size{})
	k.press("echo $a; jobs; stty size; tty; readlink /proc/self/fd/0; echo second-$((1+1))\n")
	s.want("second-2")
	out := output(t, d, s.uid)
	out = out[strings.LastIndex(out, "echo $a"):]
	for _, want := range []string{"remembered", "Running", "sleep 1000", "40 120", "/dev/pts/0\r\n/dev/pts/0\r\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("after a resume the shell doesn't know %q: %q", want, out)
		}
	}
	// Job control: a foreground job, stopped and ended by keys, over a suspend.
	k.press("sleep 2000\n")
	foreground(t, s, "sleep")
	s.suspend2(k)
	k = attachTo(t, d, s, attach.Size{})
	foreground(t, s, "sleep")
	k.press("\x1a")
	s.want("Stopped")
	k.press("fg\n")
	foreground(t, s, "sleep")
	k.press("\x03")
	foreground(t, s, "")
	k.press("echo third-$?\n")
	s.want("third-130")
	k.press("exit 9\n")
	k.lost()
	for i, err := d.Inspect(limited(t), s.uid); ; i, err = d.Inspect(limited(t), s.uid) {
		if err != nil {
			t.Fatal(err)
		}
		if i.State == driver.Exited {
			if i.Exit.Code != 9 {
				t.Errorf("the shell's exit is %+v, want 9", i.Exit)
			}
			break
		}
	}
}

// suspend2 is a cycle with a client attached, which loses its connection.
func (s *session) suspend2(k *keyboard) {
	s.t.Helper()
	img := s.suspend()
	k.lost()
	s.resume(img, schemas.BootResume)
}

// foreground waits until the job in the foreground has that name.
func foreground(t *testing.T, s *session, name string) {
	t.Helper()
	for ctx := limited(t); ; {
		o, err := s.d.Observe(ctx, s.uid)
		if err != nil {
			t.Fatalf("observe: %v", err)
		}
		if o.Foreground == name {
			return
		}
	}
}

// TestTypedAndNotRead types ahead of a program that doesn't read: one whole
// line and part of another must be there after an abort and after a resume, and
// nothing must be shown twice.
func TestTypedAndNotRead(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{TTY: true, Command: []string{"/bin/sh", "-c",
		`stty -echo; echo up; while ! [ -e /tmp/read ]; do sleep 0.01; done; stty echo; read a; echo "a=$a."; read b; echo "b=$b."; sleep 1000`}})
	s.want("up")
	k := attachTo(t, d, s, attach.Size{})
	k.press("whole line\npart")
	queued(t, d, s)
	if _, err := d.Capture(limited(t), s.next(), &drivertest.Image{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.suspend2(k)
	if out := output(t, d, s.uid); strings.Contains(out, "part") || strings.Contains(out, "whole") {
		t.Errorf("what was typed was shown: %q", out)
	}
	s.sh("touch /tmp/read")
	s.want("a=whole line.")
	k = attachTo(t, d, s, attach.Size{})
	k.press("ial\n")
	s.want("b=partial.")
}

// queued waits until what was typed has arrived in the session's terminal.
func queued(t *testing.T, d *Driver, s *session) {
	t.Helper()
	// FIONREAD of a terminal in line mode counts whole lines.
	script := `use strict; open(my $t, "+<", "/dev/pts/0") or die; my $n = pack("i", 0); ioctl($t, 0x541B, $n) or die; print unpack("i", $n);`
	for deadline := time.Now().Add(drivertest.Limit); s.run("/usr/bin/perl", "-e", script) != "11"; {
		if time.Now().After(deadline) {
			t.Fatal("what was typed doesn't arrive")
		}
	}
}

// TestTerminalsInside has a program that makes a terminal of its own, as tmux
// and ssh do.
func TestTerminalsInside(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{TTY: true, Command: []string{"/usr/bin/script", "-qf", "-c",
		`sh -c 'tty; i=0; while read x; do echo "inner $x"; done'`, "/tmp/typescript"}})
	s.want("/dev/pts/1")
	s.cycle()
	k := attachTo(t, d, s, attach.Size{})
	k.press("word\n")
	s.want("inner word")
	k.lost2()
}

func (k *keyboard) lost2() { k.keys.Close() }

// TestTwoClients has two clients at one terminal: both see all.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := shell(t, d)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	saw := make(chan string, 2)
	for range 2 {
		conn, err := d.Dial(ctx, s.uid)
		if err != nil {
			t.Fatal(err)
		}
		r, w := io.Pipe()
		go func() {
			buf := make([]byte, 4096)
			var all string
			for !regexp.MustCompile(`hello-2`).MatchString(all) {
				n, err := r.Read(buf)
				if err != nil {
					break
				}
				all += string(buf[:n])
			}
			saw <- all
			_, _ = io.Copy(io.Discard, r)
		}()
		go func() {
			_, _ = attach.Do(conn, attach.Request{Op: attach.OpAttach, Tail: -1}, attach.Streams{Stdout: w})
			w.Close()
		}()
	}
	k := attachTo(t, d, s, attach.Size{})
	k.press("echo hello-$((1+1))\n")
	for range 2 {
		select {
		case all := <-saw:
			if !strings.Contains(all, "hello-2") {
				t.Errorf("a client saw %q", all)
			}
		case <-ctx.Done():
			t.Fatal("a client sees nothing")
		}
	}
}

// TestDevTTY has programs that open /dev/tty, as a plain sh does at a terminal:
// the shell itself, and the one that a second client started beside it.
func TestDevTTY(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sh", "-i"}, TTY: true, Env: []string{"PS1=$ "}})
	k := attachTo(t, d, s, attach.Size{})
	k.press("exec 9<>/dev/tty; echo one-$((1+1)) >&9\n")
	s.want("one-2")
	conn, err := d.Dial(limited(t), s.uid)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = attach.Do(conn, attach.Request{Op: attach.OpExec, TTY: true, Argv: []string{"/bin/sh", "-c", "exec 9<>/dev/tty; touch /tmp/open; until [ -e /tmp/close ]; do sleep 0.01; done"}}, attach.Streams{})
	}()
	s.sh("until [ -e /tmp/open ]; do sleep 0.01; done")
	_, err = d.Capture(limited(t), s.next(), &drivertest.Image{})
	if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), "/dev/tty") {
		t.Errorf("a capture of programs with /dev/tty at two terminals gives %v", err)
	}
	s.sh("touch /tmp/close")
	for ctx := limited(t); ; {
		if o, err := d.Observe(ctx, s.uid); err != nil {
			t.Fatal(err)
		} else if o.Execs == 0 {
			break
		}
	}
	for _, word := range []string{"two", "three"} {
		s.suspend2(k)
		k = attachTo(t, d, s, attach.Size{})
		k.press("sleep 1000\n")
		foreground(t, s, "sleep")
		k.press("\x03")
		foreground(t, s, "")
		k.press("echo " + word + "-$((1+1)) >&9; : > /dev/tty && echo opened-" + word + "\n")
		s.want(word + "-2")
		s.want("\nopened-" + word)
	}
}

// TestStoppedOutput stops the session's output by Ctrl-S: it stays stopped when a suspend is undone, and after
// a resume, until Ctrl-Q.
func TestStoppedOutput(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{TTY: true, Command: []string{"/bin/sh", "-c", `echo up; read a; echo "a=$a."; sleep 1000`}})
	s.want("up")
	k := attachTo(t, d, s, attach.Size{})
	k.press("\x13")
	takesOutput(t, s, "0")
	if _, err := d.Capture(limited(t), s.next(), &drivertest.Image{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	if got := s.run("/usr/bin/perl", "-e", writable); got != "0" {
		t.Errorf("output that was stopped goes on after an undone suspend: %q", got)
	}
	for range 2 {
		s.suspend2(k)
		k = attachTo(t, d, s, attach.Size{})
		if got := s.run("/usr/bin/perl", "-e", writable); got != "0" {
			t.Errorf("output that was stopped goes on after a resume: %q", got)
		}
	}
	k.press("word\n")
	k.press("\x11")
	takesOutput(t, s, "1")
	s.want("a=word.")
}

// writable prints whether the session's terminal takes output, 1 or 0.
const writable = `use Fcntl; sysopen(my $t, "/dev/pts/0", O_WRONLY|O_NONBLOCK|O_NOCTTY) or die; my $w = ""; vec($w, fileno($t), 1) = 1; print scalar select(undef, $w, undef, 0);`

// takesOutput waits until the session's terminal takes output, or doesn't.
func takesOutput(t *testing.T, s *session, want string) {
	t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); s.run("/usr/bin/perl", "-e", writable) != want; {
		if time.Now().After(deadline) {
			t.Fatalf("that the terminal takes output isn't %s", want)
		}
	}
}
