package stream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Changes calls changed until ctx ends: once when it listens, whenever a message was
// stored in one of the stream's subjects (all of them if none is given), and with lost set
// whenever messages may have been missed, because the connection, the server or the stream itself
// went away. It is a hint to look, from one goroutine, and carries nothing of the message.
func Changes(ctx context.Context, js jetstream.JetStream, name string, subjects []string, changed func(lost bool)) {
	for {
		if s, err := js.Stream(ctx, name); err == nil {
			cfg := consumerConfig(jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, FilterSubjects: subjects})
			cfg.HeadersOnly = true
			r := reader{js: js, stream: s, cfg: cfg, batch: batch, caughtUp: func() { changed(false) }}
			r.fn = func(*nats.Msg, *jetstream.MsgMetadata, bool) error {
				changed(false)
				return nil
			}
			_ = r.consume(ctx, func() { changed(true) }) // an error is a reason to look, too
		}
		if ctx.Err() != nil {
			return
		}
		changed(true)
		select {
		case <-time.After(changesAgain):
		case <-ctx.Done():
			return
		}
	}
}

// changesAgain is how long Changes waits before it looks for its stream again.
const changesAgain = time.Second
