package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// between is a stream on which something happens between asking how much there is
// to read and reading it.
type between struct {
	jetstream.Stream
	happens func()
}

type betweenConsumer struct {
	jetstream.Consumer
	happens func()
}

func (b between) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	c, err := b.Stream.OrderedConsumer(ctx, cfg)
	return betweenConsumer{c, b.happens}, err
}

func (b betweenConsumer) Messages(o ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	b.happens()
	return b.Consumer.Messages(o...)
}

// What was there when reading began may be gone before it is read: a lease's
// message that runs out. The reader has caught up all the same, and doesn't wait
// for the next message: a scheduler would decide nothing until then.
func TestCaughtUpThoughTheLastMessageWent(t *testing.T) {
	srv := serve(t, server.Options{StoreDir: t.TempDir(), Port: -1})
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	go func() {
		gone := between{s, func() {
			if err := s.DeleteMsg(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}}
		done <- stream.Consume(ctx, gone, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy},
			func(jetstream.Msg, *jetstream.MsgMetadata, bool) error { return nil }, func() { close(caughtUp) }, func() {})
	}()
	select {
	case <-caughtUp:
	case <-time.After(limit):
		t.Fatal("it never catches up")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
