package control

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type note struct{ Text string }

func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = FromFile(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessagesOfAllSizes(t *testing.T) {
	a, b := pair(t)
	for _, n := range []int{0, 1, chunk - 100, chunk, chunk + 1, 5*chunk + 7} {
		want := note{strings.Repeat("x", n)}
		sent := make(chan error, 1)
		go func() { sent <- a.Send(want) }()
		var got note
		if _, err := b.Receive(&got); err != nil || got != want {
			t.Errorf("a text of %d bytes becomes %d, %v", n, len(got.Text), err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

func TestFilesComeWithTheirMessage(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := errors.Join(a.Send(note{"none"}), a.Send(note{"one"}, w)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var got note
	if files, err := b.Receive(&got); err != nil || len(files) != 0 {
		t.Errorf("a message without files has %d, %v", len(files), err)
	}
	files, err := b.Receive(&got)
	if err != nil || len(files) != 1 || got.Text != "one" {
		t.Fatalf("a message with a file has %d, %v", len(files), err)
	}
	if _, err := files[0].WriteString("through"); err != nil {
		t.Error(err)
	}
	files[0].Close()
	if s, err := io.ReadAll(r); err != nil || string(s) != "through" {
		t.Errorf("the file that came is another: %q, %v", s, err)
	}
}

// What an unknown end sends beyond one packet without files isn't taken in.
func TestShortMessages(t *testing.T) {
	a, b := pair(t)
	var got note
	if err := a.Send(note{"short"}); err != nil {
		t.Fatal(err)
	}
	if err := b.ReceiveShort(&got); err != nil || got.Text != "short" {
		t.Errorf("a short message becomes %+v, %v", got, err)
	}
	if err := a.Send(note{"with a file"}, os.Stdin); err != nil {
		t.Fatal(err)
	}
	if err := b.ReceiveShort(&got); err == nil {
		t.Error("a message with a file is taken for a short one")
	}
	sent := make(chan error, 1)
	go func() { sent <- a.Send(note{strings.Repeat("x", 2*chunk)}) }()
	if err := b.ReceiveShort(&got); err == nil {
		t.Error("a message of three packets is taken for a short one")
	}
	for range 2 {
		if _, _, _, err := b.packet(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for _, garbage := range []string{"\x00", "\x00{", "\x00[]", "\xff{}", "\x00" + strings.Repeat("{", chunk)} {
		if _, err := a.socket.Write([]byte(garbage)); err != nil {
			t.Fatal(err)
		}
		if err := b.ReceiveShort(&got); err == nil && garbage[0] == 0 {
			t.Errorf("%.10q is taken for a message", garbage)
		}
	}
}

// Files that come with a later packet than the first are closed.
func TestLateFiles(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := a.socket.Write([]byte("\x01{")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.socket.WriteMsgUnix([]byte("\x00}"), unix.UnixRights(int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := b.Receive(&note{}); err == nil {
		t.Error("a file that comes late is taken")
	}
	if _, err := io.ReadAll(r); err != nil { // it would wait for the other end
		t.Fatal(err)
	}
}

func TestEnds(t *testing.T) {
	a, b := pair(t)
	if err := b.SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Receive(&note{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its deadline Receive gives %v", err)
	}
	if err := b.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := b.Receive(&note{}); !errors.Is(err, io.EOF) {
		t.Errorf("after the other end closed Receive gives %v", err)
	}
	if err := b.Send(note{}); err == nil {
		t.Error("a message without a receiver is sent")
	}
}

func TestFromFileRefusesOthers(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FromFile(f); err == nil {
		t.Error("/dev/null is taken for a socket")
	}
}
