package control

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
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
