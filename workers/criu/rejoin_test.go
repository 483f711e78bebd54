package criu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// sink is output that can be looked at while it is written.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// talk runs a command, or connects to it again, and gives how that ends.
func talk(t *testing.T, d *Driver, e *attach.Exec) <-chan error {
	t.Helper()
	conn, err := d.Dial(limited(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ended := make(chan error, 1)
	go func() {
		exit, err := e.Run(conn)
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit %d", exit.Code)
		}
		ended <- err
	}()
	return ended
}

// TestCommandSpansASuspend has a command beside the leader, with a pipe and with a terminal.
// Its client loses its connection by two suspends and connects again: it gets all output, its
// input arrives once and in order, and it hears how the command ended.
func TestCommandSpansASuspend(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal %t", tty), func(t *testing.T) {
			d := open(t, t.TempDir())
			s := begin(t, d, "s", counting)
			in, typed := io.Pipe()
			var out sink
			script := `stty -echo 2>/dev/null; touch /tmp/began; while read line; do i=$((i+1)); echo $i $line; echo $i >/tmp/lines; [ $line != end ] || exit 9; done; exit 8`
			e := attach.NewExec("one", attach.Request{TTY: tty, Stdin: true, Argv: []string{"/bin/sh", "-c", script}}, attach.Streams{Stdin: in, Stdout: &out, Stderr: &out})
			ended := talk(t, d, e)
			s.sh("until [ -e /tmp/began ]; do sleep 0.01; done")
			lines := 0
			say := func(n int, last string) {
				for i := range n {
					line := fmt.Sprintf("word%d", i)
					if i == n-1 && last != "" {
						line = last
					}
					if _, err := fmt.Fprintln(typed, line); err != nil {
						t.Fatal(err)
					}
					lines++
				}
			}
			read := func() { s.sh(fmt.Sprintf(`until [ "$(cat /tmp/lines)" = %d ]; do sleep 0.01; done`, lines)) }
			for range 2 {
				say(20, "")
				read()
				img := s.suspend()
				if err := <-ended; !errors.Is(err, attach.ErrLost) || !e.Stays() {
					t.Fatalf("the client of a command hears %v", err)
				}
				say(5, "") // while the session is suspended
				s.resume(img, schemas.BootResume)
				if o, err := d.Observe(limited(t), "s"); err != nil || o.Execs != 1 {
					t.Errorf("after a resume %d commands run beside the leader, %v", o.Execs, err)
				}
				ended = talk(t, d, e)
				read()
			}
			say(1, "end")
			if err := <-ended; err == nil || err.Error() != "exit 9" {
				t.Errorf("it ends with %v", err)
			}
			got := strings.Fields(strings.ReplaceAll(out.String(), "\r", ""))
			if len(got) != 2*lines || got[len(got)-1] != "end" {
				t.Errorf("of %d lines it has %d: %q", lines, len(got)/2, out.String())
			}
			for i := 0; i+1 < len(got); i += 2 {
				if got[i] != fmt.Sprint(i/2+1) {
					t.Fatalf("line %d has number %s", i/2+1, got[i])
				}
			}
		})
	}
}

// TestCommandEndsAway has a command end while its client isn't there, with more output than is
// kept: the client hears how much is lost, the end of the output, and the status, also when the
// session was suspended after that end. Once it has, the command is forgotten.
func TestCommandEndsAway(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", counting)
	const size = 3 << 20
	var out sink
	e := attach.NewExec("one", attach.Request{Argv: []string{"/bin/sh", "-c",
		fmt.Sprintf(`echo first; touch /tmp/began; until [ -e /tmp/go ]; do sleep 0.01; done; head -c %d /dev/zero | tr '\0' x; echo last; touch /tmp/over; exit 9`, size)}}, attach.Streams{Stdout: &out})
	lost := int64(0)
	e.Again = func(n int64) { lost += n }
	conn, err := d.Dial(limited(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(conn)
		ended <- err
	}()
	s.sh("until [ -e /tmp/began ]; do sleep 0.01; done")
	waitUntil(t, func() bool { return strings.Contains(out.String(), "first") })
	conn.Close()
	if err := <-ended; !errors.Is(err, attach.ErrLost) {
		t.Fatal(err)
	}
	s.sh("touch /tmp/go; until [ -e /tmp/over ]; do sleep 0.01; done")
	waitUntil(t, func() bool { o, err := d.Observe(limited(t), "s"); return err == nil && o.Execs == 0 })
	s.cycle()
	if err := <-talk(t, d, e); err == nil || err.Error() != "exit 9" {
		t.Errorf("it ends with %v", err)
	}
	all := out.String()
	if !strings.HasSuffix(all, "xlast\n") || lost <= 0 || int64(len(all))+lost != size+int64(len("first\nlast\n")) {
		t.Errorf("it has %d bytes and is told that %d are lost of %d", len(all), lost, size)
	}
	waitUntil(t, func() bool { return errors.Is(<-talk(t, d, e), attach.ErrGone) })
}

// TestCommandIsGone connects again to a command of a session that went back, or is a copy.
func TestCommandIsGone(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", counting)
	e := attach.NewExec("one", attach.Request{Argv: []string{"/bin/sh", "-c", "touch /tmp/began; sleep 1000"}}, attach.Streams{})
	ended := talk(t, d, e)
	s.sh("until [ -e /tmp/began ]; do sleep 0.01; done")
	img := s.suspend()
	if err := <-ended; !errors.Is(err, attach.ErrLost) {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootRollback)
	if err := <-talk(t, d, e); !errors.Is(err, attach.ErrGone) {
		t.Errorf("after a rollback its client hears %v", err)
	}
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for ctx := limited(t); !ok(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it doesn't come to that")
		}
	}
}
