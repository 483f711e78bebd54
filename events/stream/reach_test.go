package stream_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// ear is a reader of activity, slow now and then, and what it was told.
type ear struct {
	t     *testing.T
	slow  func()
	mu    sync.Mutex
	last  uint64  // that was heard
	acked []acked // what the stream has taken, and since when that is known
	asks  chan struct{}
	told  chan struct{} // for each time that all was heard, if a test waits
	wrong int
}

type acked struct {
	seq uint64
	at  time.Time
}

// hear checks that all was heard of which that is said.
func (e *ear) hear(h stream.Heard) {
	e.slow()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case h.CaughtUp, !h.Through.IsZero():
		for _, a := range e.acked {
			if a.at.Before(h.Through) && a.seq > e.last {
				e.wrong++
			}
		}
		select {
		case e.told <- struct{}{}:
		default:
		}
	case h.Message.Seq > 0:
		e.last = h.Message.Seq
	}
}

// listens runs the reader until the test is over.
func (e *ear) listens(js jetstream.JetStream) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- stream.Activity(ctx, js, stream.NamesWith(""), e.asks, false, e.hear) }()
	e.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			e.t.Error(err)
		}
	})
}

// waits until it is said once more that all was heard, of a question put from now on.
func (e *ear) waits() {
	e.t.Helper()
	for range 3 { // one may wait to be taken, and one be on its way
		select {
		case e.asks <- struct{}{}:
		default:
		}
		select {
		case <-e.told:
		case <-time.After(limit):
			e.t.Fatal("it isn't said any more that all was heard")
		}
	}
}

func newEar(t *testing.T) *ear {
	return &ear{t: t, slow: func() {}, asks: make(chan struct{}, 1), told: make(chan struct{}, 1)}
}

// A reader never says that it has heard all of which the stream had some that it was still
// to hear, however far it is behind; and it says so again and again, though nothing is said.
func TestThroughIsNeverAheadOfWhatWasHeard(t *testing.T) {
	t.Parallel()
	js := natstest.Streams(t)
	e := newEar(t)
	e.slow = func() {
		if rand.IntN(50) == 0 {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
	}
	e.listens(js)
	e.waits()
	publish := stream.Publisher{JS: js}
	n := schemas.Name{Tenant: "acme", Session: "web"}
	for i := range 400 {
		seq, err := publish.Activity(t.Context(), n, schemas.KindHold, string(rune('a'+i%20)), schemas.Activity{})
		if err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		e.acked = append(e.acked, acked{seq, time.Now()})
		e.mu.Unlock()
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	}
	e.waits()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrong > 0 || e.last != e.acked[len(e.acked)-1].seq {
		t.Errorf("%d messages were said to be heard and weren't; %d is the last, of %d", e.wrong, e.last, e.acked[len(e.acked)-1].seq)
	}
}

// The last messages of a stream may be gone before anybody hears them: leases run out. All is
// heard nevertheless.
func TestThroughThoughTheLastMessageWent(t *testing.T) {
	t.Parallel()
	js := natstest.Streams(t)
	publish := stream.Publisher{JS: js}
	s, err := js.Stream(t.Context(), stream.NamesWith("").Activity())
	if err != nil {
		t.Fatal(err)
	}
	gone := func() {
		seq, err := publish.Activity(t.Context(), schemas.Name{Tenant: "acme", Session: "web"}, schemas.KindHold, "k", schemas.Activity{})
		if err == nil {
			err = s.DeleteMsg(t.Context(), seq)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gone()
	e := newEar(t)
	held, once := make(chan struct{}), sync.OnceFunc(func() { <-e.told })
	e.slow = func() { <-held }
	e.listens(js)
	gone()
	close(held)
	once()
	e.waits()
	gone()
	e.waits()
}

// A connection that comes back is heard through again.
func TestThroughAfterALostConnection(t *testing.T) {
	t.Parallel()
	js := natstest.Streams(t)
	e := newEar(t)
	e.listens(js)
	e.waits()
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	e.waits()
}
