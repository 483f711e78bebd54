package shim

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Output that was stopped, by a key or by a program, is stopped again, and started by what started it before.
func TestStoppedOutputTakenAndPutBack(t *testing.T) {
	key := func(t *testing.T, term *terminal, c byte) {
		t.Helper()
		if _, err := unix.Write(term.masterFD, []byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	flow := func(t *testing.T, term *terminal, action int) {
		t.Helper()
		if err := unix.IoctlSetInt(term.slaveFD, unix.TCXONC, action); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		by          stop
		stop, start func(*testing.T, *terminal)
	}{
		{stoppedByKey, func(t *testing.T, term *terminal) { key(t, term, '\x13') }, func(t *testing.T, term *terminal) { key(t, term, '\x11') }},
		{stoppedByProgram, func(t *testing.T, term *terminal) { flow(t, term, unix.TCOOFF) }, func(t *testing.T, term *terminal) { flow(t, term, unix.TCOON) }},
	} {
		for _, typed := range []string{"", "line\npart"} {
			t.Run(string(c.by)+typed, func(t *testing.T) {
				term := testTerminal(t)
				if _, err := unix.Write(term.masterFD, []byte(typed)); err != nil {
					t.Fatal(err)
				}
				c.stop(t, term)
				takes(t, term, false)
				b, err := term.takeInput()
				if err != nil || b.stopped != c.by || string(b.seen) != typed {
					t.Fatalf("takeInput gives %+v, %v", b, err)
				}
				if _, err := term.putInput(b); err != nil {
					t.Fatal(err)
				}
				if term.takesOutput() {
					t.Error("the terminal takes output that was stopped")
				}
				if c.by == stoppedByProgram { // Ctrl-Q doesn't start it
					key(t, term, '\x11')
					key(t, term, '\n')
					readLine(t, term.slaveFD)
					takes(t, term, false)
				}
				c.start(t, term)
				takes(t, term, true)
			})
		}
	}
}

// takes waits until a terminal takes output, or doesn't.
func takes(t *testing.T, term *terminal, want bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); term.takesOutput() != want; {
		if time.Now().After(deadline) {
			t.Fatalf("the terminal takes output: %v", !want)
		}
		time.Sleep(time.Millisecond)
	}
}
