package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// What a publisher gives a message of headers is no word of the server: a message that has
// none but a status would else end its reader, which meets it again, for ever.
func TestMessageThatLooksLikeAWordOfTheServer(t *testing.T) {
	for _, status := range []string{"100", "408", "409", "503"} {
		js, s := stored(t)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		const end = 3 // one is there already
		for _, h := range []nats.Header{{"Status": {status}, "Nats-Pending-Messages": {"2000"}, "Nats-Last-Consumer": {"1000"}}, nil} {
			if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "s", Header: h}); err != nil {
				t.Fatal(err)
			}
		}
		gaps := 0
		var last uint64
		err := stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}, func(_ *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
			if last = meta.Sequence.Stream; last == end {
				stop()
			}
			return nil
		}, func() {}, func() { gaps++ })
		if err != nil || last != end || gaps != 0 {
			t.Errorf("status %s: message %d was read last, of %d, with %d gaps: %v", status, last, end, gaps, err)
		}
	}
}

// A reader that starts again while the connection is away says so when it is back: until
// then nothing could be heard.
func TestGapEndsWithTheConnection(t *testing.T) {
	srv, o, js, s := lasting(t)
	nc := js.Conn()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	caughtUp, gone, heard, done := make(chan struct{}), make(chan struct{}), make(chan int, 1), make(chan error, 1)
	gaps := 0
	go func() {
		done <- stream.Consume(ctx, js, s, jetstream.OrderedConsumerConfig{}, func(*nats.Msg, *jetstream.MsgMetadata, bool) error {
			heard <- gaps
			stop()
			return nil
		}, func() { close(caughtUp) }, func() {
			if gaps++; gaps == 1 {
				srv.Shutdown()
				srv.WaitForShutdown()
				close(gone)
			}
		})
	}()
	<-caughtUp
	subscribed := nc.NumSubscriptions()
	for name := range s.ConsumerNames(ctx).Name() {
		if err := nc.Publish("$JS.API.CONSUMER.DELETE.S."+name, nil); err != nil {
			t.Error(err)
		}
	}
	<-gone
	for nc.NumSubscriptions() < subscribed && ctx.Err() == nil { // until it has started again
		time.Sleep(time.Millisecond)
	}
	srv = natstest.ServeWith(t, o)
	publish(t, js)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-heard:
		if n < 2 {
			t.Error("it read on after the connection was back, and didn't say that it had been away")
		}
	default:
		t.Error("nothing was read any more")
	}
}
