package stream_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 60 * time.Second

// lasting gives a server that comes back where it was when it is served with these options
// again, a connection that waits for that, and a stream S.
func lasting(t *testing.T) (*server.Server, server.Options, jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	o := server.Options{StoreDir: t.TempDir(), Port: server.RANDOM_PORT}
	srv := natstest.ServeWith(t, o)
	o.Port = srv.Addr().(*net.TCPAddr).Port
	js := natstest.Connect(t, srv.ClientURL(), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
	return srv, o, js, create(t, js)
}

func create(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Readers outlive their server, again and again: they read on where they were,
// and end when they are told to, at any moment.
func TestConsumeThroughRestarts(t *testing.T) {
	srv, o, js, s := lasting(t)
	steady := begin(t, js, s)
	for round := range 8 {
		brief := begin(t, js, s)
		srv.Shutdown()
		srv.WaitForShutdown()
		srv = natstest.ServeWith(t, o)
		time.Sleep(rand.N(20 * time.Millisecond)) // into the moment at which readers come back
		brief.end(t)
		publish(t, js)
		steady.reach(t, uint64(round)+1)
	}
	steady.end(t)
}

func publish(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		_, err := js.Publish(t.Context(), "s", nil, jetstream.WithExpectStream("S"))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// consuming is one reader.
type consuming struct {
	seq    atomic.Uint64
	cancel context.CancelFunc
	done   chan error
}

func begin(t *testing.T, js jetstream.JetStream, s jetstream.Stream) *consuming {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &consuming{cancel: cancel, done: make(chan error, 1)}
	caughtUp := make(chan struct{})
	go func() {
		c.done <- stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{}, func(_ *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
			if was := c.seq.Swap(meta.Sequence.Stream); meta.Sequence.Stream <= was {
				t.Errorf("message %d came after %d", meta.Sequence.Stream, was)
			}
			return nil
		}, func() { close(caughtUp) }, func() {})
	}()
	select {
	case <-caughtUp:
	case <-time.After(limit):
		t.Fatal("the reader doesn't catch up")
	}
	return c
}

func (c *consuming) reach(t *testing.T, seq uint64) {
	t.Helper()
	for deadline := time.Now().Add(limit); c.seq.Load() < seq; time.Sleep(time.Millisecond) {
		select {
		case err := <-c.done:
			t.Fatalf("the reader ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reader is at message %d, not at %d", c.seq.Load(), seq)
		}
	}
}

func (c *consuming) end(t *testing.T) {
	t.Helper()
	c.cancel()
	select {
	case err := <-c.done:
		if err != nil {
			t.Fatalf("the reader ended with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the reader doesn't end when it is told to")
	}
}
