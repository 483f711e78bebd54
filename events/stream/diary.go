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

// Diary publishes a part of the use history: what a scheduler heard.
func (p Publisher) Diary(ctx context.Context, d schemas.Diary) error {
	return p.publish(ctx, schemas.SubjectDiary, d)
}

// ReadDiary calls fn with all that schedulers wrote since a time, up to the last that is
// there now. What can't be read is passed over.
func ReadDiary(ctx context.Context, js jetstream.JetStream, n Names, since time.Time, fn func(schemas.Diary)) error {
	s, err := js.Stream(ctx, n.Diary())
	if err != nil {
		return fmt.Errorf("find stream %s: %w", n.Diary(), err)
	}
	read, stop := context.WithCancel(ctx)
	defer stop()
	all := false
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}
	err = Consume(read, js, s, cfg, func(msg *nats.Msg, _ *jetstream.MsgMetadata, _ bool) error {
		var d schemas.Diary
		if json.Unmarshal(msg.Data, &d) == nil {
			fn(d)
		}
		return nil
	}, func() { all = true; stop() }, func() {})
	if err == nil && !all {
		err = fmt.Errorf("read the diary: %w", ctx.Err())
	}
	return err
}
