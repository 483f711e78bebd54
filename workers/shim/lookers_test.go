package shim

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// looking is a session with a terminal that shows something, and no processes.
func looking() *clients {
	c := newCommand(backlog.New(attach.OutputKept), false)
	c.shown = newShown(c, attach.Size{Rows: 24, Cols: 80})
	c.took(backlog.Out, []byte("before\x1b[2J\x1b[Hshown"))
	return &clients{name: schemas.Name{Tenant: "acme", Session: "web"}, tree: &processes{main: c}}
}

// Who watches by a share gets the screen and what follows. What that client sends reaches nothing: the terminal keeps its
// size, and a program that asks it something has no answer by it.
func TestLookOn(t *testing.T) {
	v := looking()
	here, there := net.Pipe()
	defer here.Close()
	done := make(chan error, 1)
	go func() {
		done <- v.lookOn(t.Context(), there, attach.Request{Op: attach.OpWatch, Share: "one", Rows: 1, Cols: 1, Stdin: true, Typist: "x"})
		there.Close()
	}()
	var got []byte
	until := func(text string) {
		t.Helper()
		for !bytes.Contains(got, []byte(text)) {
			kind, payload, err := attach.ReadFrame(here)
			if err != nil {
				t.Fatalf("it ends with %v after %q", err, got)
			}
			got = append(append(got, kind), payload...)
		}
	}
	until("hown")
	if bytes.Contains(got, []byte("before")) {
		t.Errorf("it gets what was printed before: %q", got)
	}
	if err := attach.WriteFrame(here, attach.FrameStdin, []byte("typed\r")); err != nil {
		t.Fatal(err)
	}
	if err := attach.WriteJSON(here, attach.FrameResize, attach.Size{Rows: 2, Cols: 3}); err != nil {
		t.Fatal(err)
	}
	w := v.tree.main.shown
	v.tree.main.took(backlog.Out, []byte("asks\x1b[c and goes on"))
	until("goes on")
	w.mu.Lock()
	if len(w.owed) > 0 || w.watchers != 0 || w.others != 0 || w.sizeNow() != (attach.Size{Rows: 24, Cols: 80}) {
		t.Errorf("it changes the terminal: %q owed, %d and %d there, size %v", w.owed, w.watchers, w.others, w.sizeNow())
	}
	w.mu.Unlock()
	here.Close()
	if err := <-done; err != nil || v.lookers.Load() != 0 {
		t.Errorf("it ends with %v, and %d are there", err, v.lookers.Load())
	}
}

func TestManyLook(t *testing.T) {
	v := looking()
	v.lookers.Store(lookersMost)
	if err := v.lookOn(t.Context(), nil, attach.Request{}); err == nil || !strings.Contains(err.Error(), "the most that may") || v.lookers.Load() != lookersMost {
		t.Errorf("one more: %v, and %d are there", err, v.lookers.Load())
	}
	v = looking()
	v.tree.main.shown = nil
	if err := v.lookOn(t.Context(), nil, attach.Request{}); err == nil {
		t.Error("a session without a terminal is watched")
	}
}
