package cas_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/natstest"
)

func newWriter(t *testing.T) (cas.Writer, *server.Server) {
	t.Helper()
	s := natstest.Serve(t)
	js := natstest.Connect(t, s.ClientURL())
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgSize: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return cas.Writer{JS: js, Stream: stream, Attempt: 5 * time.Second, Retry: 20 * time.Millisecond}, s
}

func is(want string) func([]byte) bool {
	return func(data []byte) bool { return string(data) == want }
}

// The three outcomes of a write, and what the server refuses for other reasons.
func TestOutcomes(t *testing.T) {
	w, srv := newWriter(t)
	first, err := w.Write(t.Context(), "s.a", 0, []byte("one"), is("one"))
	if err != nil {
		t.Fatal(err)
	}
	// The same write again, as after an answer that was lost: it is found.
	if seq, err := w.Write(t.Context(), "s.a", 0, []byte("one"), is("one")); err != nil || seq != first {
		t.Errorf("again: sequence %d, error %v, want %d", seq, err, first)
	}
	if _, err := w.Write(t.Context(), "s.a", 0, []byte("two"), is("two")); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("another one: error %v, want a conflict", err)
	}
	if _, err := w.Write(t.Context(), "s.b", 0, []byte("two"), is("two")); err != nil {
		t.Errorf("another subject: %v", err)
	}
	_, err = w.Write(t.Context(), "s.a", first, []byte(strings.Repeat("x", 2<<10)), is("x"))
	if err == nil || errors.Is(err, cas.ErrConflict) || errors.Is(err, cas.ErrUnknown) {
		t.Errorf("too large: error %v, want the server's", err)
	}
	srv.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := w.Write(ctx, "s.a", first, []byte("two"), is("two")); !errors.Is(err, cas.ErrUnknown) {
		t.Errorf("the server is gone: error %v, want unknown", err)
	}
}

// A stream that is full refuses: nothing is written, and the caller gets the reason
// even if its context never ends.
func TestFull(t *testing.T) {
	w, _ := newWriter(t)
	stream, err := w.JS.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "F", Subjects: []string{"f.>"}, MaxBytes: 1 << 10, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Stream, w.Attempt = stream, 500*time.Millisecond
	big := strings.Repeat("x", 900)
	if _, err := w.Write(t.Context(), "f.a", 0, []byte(big), is(big)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), "f.b", 0, []byte(big), is(big)); !errors.Is(err, cas.ErrFull) {
		t.Errorf("error %v, want that it is full", err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), "f.b", 0, []byte(big), is(big)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
