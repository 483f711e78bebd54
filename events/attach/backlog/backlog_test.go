package backlog

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// all reads what follows from until there is nothing, for a Log that has ended.
func all(t *testing.T, l *Log, from int64) (out, err string, at int64) {
	t.Helper()
	for {
		s, b, next, e := l.Next(context.Background(), from)
		if errors.Is(e, io.EOF) {
			return out, err, from
		}
		if e != nil {
			t.Fatal(e)
		}
		if s == Err {
			err += string(b)
		} else {
			out += string(b)
		}
		from = next
	}
}

func TestFollow(t *testing.T) {
	l := New(100)
	l.Append(Out, []byte("one "))
	l.Append(Err, []byte("wrong "))
	l.Append(Out, []byte("two"))
	l.Append(Out, nil)
	l.End()
	out, err, at := all(t, l, 0)
	if out != "one two" || err != "wrong " || at != 13 {
		t.Errorf("it holds %q and %q, to %d", out, err, at)
	}
	if out, _, _ := all(t, l, 11); out != "wo" {
		t.Errorf("from 11 on it is %q", out)
	}
	if from := l.Tail(2); from != 11 {
		t.Errorf("the last two bytes begin at %d", from)
	}
	if from := l.Tail(1000); from != 0 {
		t.Errorf("more than there is begins at %d", from)
	}
}

func TestOldIsDropped(t *testing.T) {
	l := New(10)
	for range 100 {
		l.Append(Out, []byte("12345"))
		l.Append(Err, []byte("x"))
	}
	start, end := l.Span()
	if end != 600 || start < 580 || start > 590 {
		t.Errorf("of 600 bytes it holds %d to %d, 10 are to be kept", start, end)
	}
	l.End()
	if out, err, _ := all(t, l, 0); len(out)+len(err) != int(end-start) {
		t.Errorf("it gives %d bytes, and holds %d", len(out)+len(err), end-start)
	}
}

func TestNextWaits(t *testing.T) {
	l := New(10)
	got := make(chan string)
	go func() {
		_, b, _, _ := l.Next(context.Background(), 0)
		got <- string(b)
	}()
	l.Append(Out, []byte("x"))
	if b := <-got; b != "x" {
		t.Errorf("a waiting reader gets %q", b)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, _, err := l.Next(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader whose context ended gets %v", err)
	}
}

func TestRoomWaitsForWhoHolds(t *testing.T) {
	l := New(10)
	l.Room() // without a holder
	l.Hold(0)
	l.Append(Out, []byte("123456"))
	free := make(chan struct{})
	go func() {
		l.Room()
		close(free)
	}()
	select {
	case <-free:
		t.Error("there is room though the reader is 6 of 10 behind")
	case <-time.After(10 * time.Millisecond):
	}
	l.Hold(6)
	<-free
	l.Append(Out, []byte("123456"))
	l.Release()
	l.Room()
}

func TestEncode(t *testing.T) {
	l := New(20)
	l.Append(Out, []byte(strings.Repeat("x", 30)))
	l.Append(Err, []byte("oh"))
	b := l.Encode()
	got, err := Decode(b, 20)
	if err != nil {
		t.Fatal(err)
	}
	gs, ge := got.Span()
	ls, le := l.Span()
	if gs != ls || ge != le {
		t.Errorf("it spans %d to %d, and %d to %d when it is back", ls, le, gs, ge)
	}
	got.Append(Out, []byte("on"))
	got.End()
	if _, _, at := all(t, got, 0); at != le+2 {
		t.Errorf("it ends at %d, want %d", at, le+2)
	}
	for n := range len(b) {
		if n == 8 || n == 8+5+30 {
			continue // whole pieces
		}
		if _, err := Decode(b[:n], 20); err == nil && n != len(b) {
			t.Errorf("%d of %d bytes are taken", n, len(b))
		}
	}
}

func FuzzDecode(f *testing.F) {
	l := New(20)
	l.Append(Out, []byte("x"))
	f.Add(l.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := Decode(b, 20); err == nil {
			l.End()
			all(t, l, 0)
		}
	})
}

// Of what is too long to be sealed the end is kept, with its position; what is damaged gives nothing.
func TestLast(t *testing.T) {
	l := New(100)
	for _, s := range []string{"one", "two", "three"} {
		l.Append(Out, []byte(s))
		l.Append(Err, []byte("-"))
	}
	b := l.Encode()
	if got := Last(b, len(b)); string(got) != string(b) {
		t.Errorf("one that fits became %q", got)
	}
	got, err := Decode(Last(b, len(b)-1), 100)
	if err != nil {
		t.Fatal(err)
	}
	got.End()
	if out, errs, at := all(t, got, 0); out != "twothree" || errs != "---" || at != 14 {
		t.Errorf("it holds %q and %q, to %d", out, errs, at)
	}
	if got := Last(append(b[:8:8], 1, 0xff, 0xff, 0xff, 0xff, 'x', 'y'), 12); got != nil {
		t.Errorf("of a damaged one %q is left", got)
	}
}
