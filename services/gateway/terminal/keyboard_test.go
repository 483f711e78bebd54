package terminal

import (
	"context"
	"errors"
	"testing"
)

// TestKeyboard: what is typed again counts once, a gap is refused, and so is too much.
func TestKeyboard(t *testing.T) {
	k := newKeyboard(10)
	for _, c := range []struct {
		at   int64
		text string
		err  error
	}{{10, "abc", nil}, {10, "abc", nil}, {12, "cde", nil}, {9, "x", nil}, {16, "x", errGap}, {15, string(make([]byte, maxOwed)), errAhead}} {
		if err := k.put(c.at, []byte(c.text)); !errors.Is(err, c.err) {
			t.Errorf("%.10q at %d: %v", c.text, c.at, err)
		}
	}
	if b, gone, _ := k.from(11, 3); gone || string(b) != "bcd" {
		t.Errorf("from 11 on it has %q", b)
	}
	if err := k.take(12); err != nil {
		t.Error(err)
	}
	if _, gone, _ := k.from(11, 3); !gone {
		t.Error("what was taken is still there")
	}
	if err := k.take(16); !errors.Is(err, errTaken) {
		t.Errorf("the session takes what wasn't typed: %v", err)
	}
	if err := k.take(15); err != nil {
		t.Error(err)
	}
	if taken, owes, _ := k.state(); taken != 15 || owes {
		t.Errorf("%d taken, more: %v", taken, owes)
	}
}

// TestKeyboardOfAnotherSession: input for the session before isn't typed into the next.
func TestKeyboardOfAnotherSession(t *testing.T) {
	k := newKeyboard(10)
	if err := k.take(0); err != nil {
		t.Error(err)
	}
	k = newKeyboard(10)
	_ = k.put(10, []byte("x"))
	if err := k.take(0); !errors.Is(err, errOther) {
		t.Errorf("it takes the input: %v", err)
	}
}

// TestFlow: beyond the window nothing is sent until the client has shown some of it.
func TestFlow(t *testing.T) {
	f := newFlow(true)
	if err := f.room(t.Context(), window); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.room(over, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("there is room beyond the window: %v", err)
	}
	f.showed(window + 1) // more than it got
	f.showed(1)
	if err := f.room(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := newFlow(false).room(over, window+1); err != nil {
		t.Error(err)
	}
}
