package stream_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// odd is a stream whose consumers meet with something.
type odd struct {
	jetstream.Stream
	before func(context.Context) error // one says how far it is
	after  func()
}

type oddConsumer struct {
	jetstream.Consumer
	odd odd
}

func (o odd) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := o.Stream.CreateConsumer(ctx, cfg)
	return oddConsumer{c, o}, err
}

func (c oddConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if err := c.odd.before(ctx); err != nil {
		return nil, err
	}
	defer c.odd.after()
	return c.Consumer.Info(ctx)
}

// stored gives a stream with one message.
func stored(t *testing.T) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js := natstest.Connect(t, natstest.Serve(t).ClientURL())
	s := create(t, js)
	if _, err := js.Publish(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	return js, s
}

// catchesUp checks that a reader gets to the end of what is stored.
func catchesUp(t *testing.T, js jetstream.JetStream, s jetstream.Stream) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy},
			func(*nats.Msg, *jetstream.MsgMetadata, bool) error { return nil }, func() { close(caughtUp) }, func() {})
	}()
	select {
	case <-caughtUp:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	case <-time.After(limit):
		t.Fatal("it never catches up")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What was there when reading began may be gone before it is read: a lease's
// message that runs out. The reader has caught up all the same, and doesn't wait
// for the next message: a scheduler would decide nothing until then.
func TestCaughtUpThoughTheLastMessageWent(t *testing.T) {
	t.Parallel()
	js, s := stored(t)
	var once sync.Once
	catchesUp(t, js, odd{s, func(context.Context) error { return nil }, func() {
		once.Do(func() {
			if err := s.DeleteMsg(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}})
}

// A reader leaves nothing behind: a server takes only so many consumers a stream,
// and each suspend reads.
func TestReadersLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	js, s := stored(t)
	for range 5 {
		catchesUp(t, js, s)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Consumers != 0 {
		t.Errorf("%d consumers are left", info.State.Consumers)
	}
}

// A request that is lost with its node ends the reading with an error, so that the
// caller can start again: the client itself would wait for the answer forever, and a
// worker's sweep with it.
func TestAQuestionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	js, s := stored(t)
	lost := odd{s, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, func() {}}
	done := make(chan error, 1)
	go func() {
		done <- stream.Consume(t.Context(), js, lost, jetstream.OrderedConsumerConfig{},
			func(*nats.Msg, *jetstream.MsgMetadata, bool) error { return nil }, func() {}, func() {})
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it ended as if it had been told to")
		}
	case <-time.After(limit):
		t.Fatal("it waits for ever")
	}
}

// A reader that is told to end does so while it can't be served at all: its consumer is
// being made again, on a server that has no stream for it, or its connection is closed.
func TestReadersEndThoughNothingServesThem(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(nc *nats.Conn, s *server.Server, o server.Options){
		"no stream": func(nc *nats.Conn, s *server.Server, o server.Options) {
			back := nc.StatusChanged(nats.CONNECTED)
			s.Shutdown()
			s.WaitForShutdown()
			o.StoreDir = t.TempDir()
			natstest.ServeWith(t, o)
			<-back
		},
		"closed": func(nc *nats.Conn, _ *server.Server, _ server.Options) { nc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			srv, o, js, s := lasting(t)
			c := begin(t, js, s)
			cut(js.Conn(), srv, o)
			time.Sleep(rand.N(200 * time.Millisecond)) // into the client's reaction to it
			c.cancel()
			select {
			case <-c.done:
			case <-time.After(limit):
				t.Fatal("it doesn't end")
			}
		})
	}
}
