package shim

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testTerminal makes a terminal in the machine's own devpts.
func testTerminal(t testing.TB) *terminal {
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
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
	for range 2 {
		b, err := term.takeInput()
		if err != nil || string(b.seen) != "whole line\npart" || len(b.ends)+len(b.late) > 0 {
			t.Fatalf("takeInput gives %+v, %v", b, err)
		}
		if _, err := term.putInput(b); err != nil {
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

// readAll reads so many bytes.
func readAll(t *testing.T, fd int, want int) (all []byte) {
	t.Helper()
	buf := make([]byte, 8192)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && len(all) < want; {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EAGAIN:
			time.Sleep(time.Millisecond)
		case err != nil:
			t.Fatal(err)
		default:
			all = append(all, buf[:n]...)
		}
	}
	return all
}

func makeRaw(t *testing.T, fd int) {
	t.Helper()
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	settings.Iflag, settings.Lflag = 0, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, settings); err != nil {
		t.Fatal(err)
	}
}

// A paste that fills all that the kernel queues is taken and put back whole.
func TestMuchInputTakenAndPutBack(t *testing.T) {
	term := testTerminal(t)
	makeRaw(t, term.slaveFD)
	var typed []byte
	for len(typed) < 1<<20 {
		line := strconv.AppendInt(nil, int64(len(typed)), 10)
		n, err := unix.Write(term.masterFD, append(line, '\n'))
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		typed = append(typed, append(line, '\n')[:n]...)
	}
	if len(typed) < 4096 {
		t.Fatalf("the terminal took %d bytes only", len(typed))
	}
	b, err := term.takeInput()
	if err != nil || string(b.seen)+string(b.late) != string(typed) {
		t.Fatalf("%d bytes of %d were taken, %v", len(b.seen)+len(b.late), len(typed), err)
	}
	c := &command{tty: term, taken: b}
	if err := c.putInput(); err != nil {
		t.Fatal(err)
	}
	c.pushLate(newGate())
	if got := readAll(t, term.slaveFD, len(typed)); string(got) != string(typed) {
		t.Errorf("%d bytes of %d came back", len(got), len(typed))
	}
}

// Bytes of every value are put back as they were, what the terminal is marked with included, and
// programs can write to it then.
func TestEveryByteTakenAndPutBack(t *testing.T) {
	term := testTerminal(t)
	makeRaw(t, term.slaveFD)
	var keys []byte
	for i := range 3000 {
		keys = append(keys, byte(i*7))
	}
	if _, err := unix.Write(term.masterFD, keys); err != nil {
		t.Fatal(err)
	}
	b, err := term.takeInput()
	if err != nil {
		t.Fatal(err)
	}
	b = typed{seen: append(b.seen, b.late...)} // what the kernel has done so far depends on its pace
	if late, err := term.putInput(b); err != nil || len(late) > 0 {
		t.Fatalf("%d bytes are late, %v", len(late), err)
	}
	if got := readAll(t, term.slaveFD, len(keys)); string(got) != string(keys) {
		t.Errorf("%d bytes of %d came back, or others", len(got), len(keys))
	}
	if !term.takesOutput() {
		t.Error("the terminal is stopped")
	}
}

// The end that Ctrl-D makes of a line, or of the input, is not lost and no byte.
func TestEndsOfInputTakenAndPutBack(t *testing.T) {
	for _, typed := range []string{"\x04", "part\x04", "line\n\x04more\x04un"} {
		term := testTerminal(t)
		if _, err := unix.Write(term.masterFD, []byte(typed)); err != nil {
			t.Fatal(err)
		}
		b, err := term.takeInput()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := term.putInput(b); err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(strings.ReplaceAll(typed, "\n", "\n\x04"), "un"), "\x04")
		for _, line := range want[:len(want)-1] {
			buf := make([]byte, 64)
			n, err := unix.Read(term.slaveFD, buf)
			if err != nil || string(buf[:n]) != line {
				t.Errorf("of %q: read gives %q, %v; want %q", typed, buf[:max(n, 0)], err, line)
			}
		}
	}
}
