package statekv

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// LogOf is Log for the sessions of one tenant; of all if it is empty.
func (s *Store) LogOf(ctx context.Context, t schemas.Tenant, fn func(Versioned) error) error {
	if t == "" {
		return s.Log(ctx, fn)
	}
	all := false
	read, stop := context.WithCancel(ctx)
	defer stop()
	err := s.follow(read, []string{s.names.SessionSubject(schemas.Name{Tenant: t, Session: "*"})}, fn, func() {
		all = true
		stop()
	})
	if err == nil && !all {
		err = fmt.Errorf("read the log of tenant %s: %w", t, ctx.Err())
	}
	return err
}

// Follow calls fn with every revision of every record in the order of the log, then with
// each new one, from one goroutine, until ctx ends or fn fails. caughtUp is called once,
// when all that was there at the beginning has been delivered.
func (s *Store) Follow(ctx context.Context, fn func(Versioned) error, caughtUp func()) error {
	return s.follow(ctx, nil, fn, caughtUp)
}

func (s *Store) follow(ctx context.Context, subjects []string, fn func(Versioned) error, caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: subjects}
	return stream.Consume(ctx, s.js, s.stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		v, err := decodeAt(msg.Data, meta.Sequence.Stream, meta.Timestamp)
		if err != nil {
			return fmt.Errorf("%s: %w", msg.Subject, err)
		}
		return fn(v)
	}, caughtUp, func() {})
}
