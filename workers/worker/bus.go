package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Records keeps the session records, which change by compare-and-swap alone.
// *statekv.Store is one, and says what each method promises.
type Records interface {
	Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
	Log(ctx context.Context, fn func(statekv.Versioned) error) error
}

var _ Records = (*statekv.Store)(nil)

// Bus is what a worker hears and publishes besides the records.
type Bus interface {
	// Since gives the activity of a session that was accepted after seq: all that
	// was acknowledged before the call is in it.
	Since(ctx context.Context, n schemas.Name, seq uint64) ([]session.Message, error)
	// Listen calls fn for the activity of a session that is accepted after seq,
	// until ctx ends.
	Listen(ctx context.Context, n schemas.Name, seq uint64, fn func(session.Message)) error
	// Activity and Event return when what they publish is stored.
	Activity(ctx context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error)
	Event(ctx context.Context, e schemas.Event) error
	// Commands calls fn for the sessions that commands of this host name, at least
	// once each, until ctx ends or reading fails.
	Commands(ctx context.Context, host schemas.HostID, fn func(schemas.Name)) error
	// Announce tells the fleet about this host, and replaces what was announced before.
	Announce(ctx context.Context, h schemas.Host) error
	// Progress publishes how far an op is; it may be lost.
	Progress(n schemas.Name, p schemas.Progress)
}

// natsBus is the Bus of a NATS server.
type natsBus struct {
	stream.Publisher
	nc    *nats.Conn
	names stream.Names
}

func (b natsBus) Since(ctx context.Context, n schemas.Name, seq uint64) ([]session.Message, error) {
	return stream.Since(ctx, b.JS, b.names, n, seq)
}

func (b natsBus) Listen(ctx context.Context, n schemas.Name, seq uint64, fn func(session.Message)) error {
	return stream.Watch(ctx, b.JS, b.names, n, seq, fn)
}

func (b natsBus) Progress(n schemas.Name, p schemas.Progress) {
	if data, err := json.Marshal(p); err == nil {
		_ = b.nc.Publish(schemas.SubjectProgress+"."+n.Key(), data) // only for the eye
	}
}

func (b natsBus) Announce(ctx context.Context, h schemas.Host) error {
	kv, err := b.JS.KeyValue(ctx, b.names.Hosts())
	if err != nil {
		return fmt.Errorf("find bucket %s: %w", b.names.Hosts(), err)
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode host %s: %w", h.Host, err)
	}
	if _, err := kv.Put(ctx, string(h.Host), data); err != nil {
		return fmt.Errorf("announce host %s: %w", h.Host, err)
	}
	return nil
}

// Commands acknowledges each at once: a command is a hint, and the record keeps
// what has to be done.
func (b natsBus) Commands(ctx context.Context, host schemas.HostID, fn func(schemas.Name)) error {
	prefix := schemas.SubjectCommand + "." + string(host) + "."
	c, err := b.JS.CreateOrUpdateConsumer(ctx, b.names.Commands(), jetstream.ConsumerConfig{
		Durable: "worker-" + string(host), FilterSubject: prefix + ">", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consume the commands of host %s: %w", host, err)
	}
	it, err := c.Messages()
	if err != nil {
		return fmt.Errorf("consume the commands of host %s: %w", host, err)
	}
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	defer it.Stop()
	for {
		msg, err := it.Next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue
		case err != nil:
			return fmt.Errorf("consume the commands of host %s: %w", host, err)
		}
		n, err := schemas.NameOfKey(strings.TrimPrefix(msg.Subject(), prefix))
		if err == nil {
			fn(n)
		}
		_ = msg.Ack() // else it comes again
	}
}
