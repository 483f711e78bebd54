package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// More than one request's messages are read in order, under any API prefix.
func TestReadMuch(t *testing.T) {
	srv := natstest.ServeWith(t, server.Options{JetStreamDomain: "far"})
	plain := natstest.Connect(t, srv.ClientURL())
	domain, err1 := jetstream.NewWithDomain(plain.Conn(), "far")
	prefix, err2 := jetstream.NewWithAPIPrefix(plain.Conn(), "$JS.far.API")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	const n, large = 5000, 100 // the large ones are more than is asked for at once, too
	if _, err := plain.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		var data []byte
		if i < large {
			data = make([]byte, 200<<10)
		}
		if _, err := plain.PublishAsync("s", data, jetstream.WithStallWait(limit)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-plain.PublishAsyncComplete():
	case <-time.After(limit):
		t.Fatal("it isn't written")
	}
	for name, js := range map[string]jetstream.JetStream{"plain": plain, "domain": domain, "prefix": prefix} {
		s, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), limit)
		next := uint64(1)
		err = stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{}, func(_ *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
			if meta.Sequence.Stream != next || live {
				return errors.New("out of order, or live")
			}
			next++
			return nil
		}, stop, func() { t.Error("it started again") })
		if err != nil || next != n+1 {
			t.Errorf("%s: %d messages were read: %v", name, next-1, err)
		}
		stop()
	}
}

// A consumer that goes away under its reader is made again, after the last message, and
// its reader is told.
func TestConsumerGoesAway(t *testing.T) {
	js, s := stored(t)
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	var seq, gaps atomic.Uint64
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{}, func(_ *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
			if was := seq.Swap(meta.Sequence.Stream); meta.Sequence.Stream != was+1 {
				t.Errorf("message %d came after %d", meta.Sequence.Stream, was)
			}
			if meta.Sequence.Stream == 3 {
				stop()
			}
			return nil
		}, func() { close(caughtUp) }, func() { gaps.Add(1) })
	}()
	<-caughtUp
	for range 2 {
		for name := range s.ConsumerNames(ctx).Name() {
			if err := s.DeleteConsumer(ctx, name); err != nil {
				t.Error(err)
			}
		}
		if _, err := js.Publish(ctx, "s", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil || seq.Load() != 3 || gaps.Load() == 0 {
		t.Errorf("it is at message %d, and was told %d times of a gap: %v", seq.Load(), gaps.Load(), err)
	}
}

// The reader of activity asks for all that may come while the server stores, see
// LargeBatch.
func TestActivityAsksForMuch(t *testing.T) {
	js, _ := stored(t)
	names := stream.NamesWith("")
	if err := stream.Ensure(t.Context(), js, names, 1); err != nil {
		t.Fatal(err)
	}
	asked, err := js.Conn().SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + names.Activity() + ".*")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stream.Activity(ctx, js, names, nil, false, func(stream.Heard) {}) }()
	msg, err := asked.NextMsg(limit)
	if err != nil {
		t.Fatal(err)
	}
	var request struct{ Batch int }
	if err := json.Unmarshal(msg.Data, &request); err != nil || request.Batch != stream.LargeBatch {
		t.Errorf("it asks %s: %v", msg.Data, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
