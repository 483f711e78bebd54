package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// UseHistory publishes a part of the use history: what a scheduler heard.
func (p Publisher) UseHistory(ctx context.Context, d schemas.UseHistory) error {
	return p.publish(ctx, schemas.SubjectUses, d)
}

// ReadUseHistory calls fn with all that schedulers wrote since a time, up to the last that is
// there now. What can't be read is passed over.
func ReadUseHistory(ctx context.Context, js jetstream.JetStream, n Names, since time.Time, fn func(schemas.UseHistory)) error {
	s, err := js.Stream(ctx, n.UseHistory())
	if err != nil {
		return fmt.Errorf("find stream %s: %w", n.UseHistory(), err)
	}
	read, stop := context.WithCancel(ctx)
	defer stop()
	all := false
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}
	err = Consume(read, js, s, cfg, func(msg *nats.Msg, _ *jetstream.MsgMetadata, _ bool) error {
		var d schemas.UseHistory
		if json.Unmarshal(msg.Data, &d) == nil {
			fn(d)
		}
		return nil
	}, func() { all = true; stop() }, func() {})
	if err == nil && !all {
		err = fmt.Errorf("read the use history: %w", ctx.Err())
	}
	return err
}
