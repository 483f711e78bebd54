package shim

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testTerminal makes a terminal in the machine's own devpts.
func testTerminal(t *testing.T) *terminal {
	t.Helper()
	// Its ptmx is at /dev/ptmx if the instance's own is closed to all.
	if err := os.Chmod("/dev/pts/ptmx", 0o666); err != nil {
		t.Fatal(err)
	}
	term, err := openTerminal("/dev/pts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(term.close)
	runtime.KeepAlive(term)
	return term
}

func readLine(t *testing.T, fd int) string {
	t.Helper()
	buf := make([]byte, 256)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Read(fd, buf)
		if err == nil {
			return string(buf[:n])
		}
		if err != unix.EAGAIN {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nothing to read")
	return ""
}

func TestInputTakenAndPutBack(t *testing.T) {
	term := testTerminal(t)
	if _, err := unix.Write(term.masterFD, []byte("whole line\npart")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(settle)
	for range 2 {
		b, err := term.takeInput()
		if err != nil || string(b) != "whole line\npart" {
			t.Fatalf("takeInput gives %q, %v", b, err)
		}
		if err := term.putInput(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := readLine(t, term.slaveFD); got != "whole line\n" {
		t.Errorf("the first line is %q", got)
	}
	if _, err := unix.Write(term.masterFD, []byte("ial\n")); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, term.slaveFD); got != "partial\n" {
		t.Errorf("the second line is %q", got)
	}
}
