package statekv

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Watch calls fn with the last revision of every record, then with each new
// one, from one goroutine, until ctx ends. caughtUp is called once, when all
// that was there at the beginning has been delivered.
func (s *Store) Watch(ctx context.Context, fn func(Versioned), caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	return stream.Consume(ctx, s.js, s.stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		v, err := decodeAt(msg.Data, meta.Sequence.Stream, meta.Timestamp)
		if err != nil {
			return fmt.Errorf("%s: %w", msg.Subject, err)
		}
		fn(v)
		return nil
	}, caughtUp, func() {})
}

// All gives the last revision of every record, of deleted sessions too: all that
// was written before the call is in it.
func (s *Store) All(ctx context.Context) ([]Versioned, error) {
	var all []Versioned
	complete := false
	watch, stop := context.WithCancel(ctx)
	defer stop()
	last := map[schemas.Name]int{}
	err := s.Watch(watch, func(v Versioned) {
		if i, ok := last[v.Name()]; ok {
			all[i] = v
			return
		}
		last[v.Name()] = len(all)
		all = append(all, v)
	}, func() {
		complete = true
		stop()
	})
	if err == nil && !complete {
		err = fmt.Errorf("read all records: %w", ctx.Err())
	}
	return all, err
}

// Log calls fn with every revision of every record in the order of the log, up
// to the last that is there now. That may not be the last that was written: those of removed
// sessions are purged.
func (s *Store) Log(ctx context.Context, fn func(Versioned) error) error {
	return s.logOf(ctx, nil, "the log", fn)
}
