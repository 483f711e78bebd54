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
	subjects := []string{s.names.SessionSubject(schemas.Name{Tenant: t, Session: "*"})}
	return s.logOf(ctx, subjects, "the log of tenant "+string(t), fn)
}

// logOf reads the log, or some subjects of it, to its end.
func (s *Store) logOf(ctx context.Context, subjects []string, what string, fn func(Versioned) error) error {
	all := false
	read, stop := context.WithCancel(ctx)
	defer stop()
	err := s.follow(read, subjects, fn, func() {
		all = true
		stop()
	})
	if err == nil && !all {
		err = fmt.Errorf("read %s: %w", what, ctx.Err()) // cut short is not the whole
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
