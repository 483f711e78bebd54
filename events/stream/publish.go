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

// Publisher puts messages on the streams and waits until they are stored.
type Publisher struct {
	JS    jetstream.JetStream
	Trace string // which trace what is published is a part of, see schemas.HeaderTrace; none if empty
}

// Activity publishes one piece of activity and gives its sequence. A lease's
// message is dropped by the server some time after it has run out.
func (p Publisher) Activity(ctx context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return 0, fmt.Errorf("encode activity of %s: %w", n, err)
	}
	var opts []jetstream.PublishOpt
	if k.Lease() {
		opts = append(opts, jetstream.WithMsgTTL(kept(k, a)))
	}
	m := &nats.Msg{Subject: schemas.ActivitySubject(n, k, key), Data: data}
	if p.Trace != "" {
		m.Header = nats.Header{schemas.HeaderTrace: {p.Trace}}
	}
	ack, err := p.JS.PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, fmt.Errorf("publish activity of %s: %w", n, err)
	}
	return ack.Sequence, nil
}

// kept is how long the server keeps the message of a lease, in whole seconds. That a hold is over is kept for as
// long as any hold: it ends those of that name that were placed without credentials.
func kept(k schemas.Kind, a schemas.Activity) time.Duration {
	ttl := time.Duration(a.TTL)
	if a.Released && k == schemas.KindHold {
		ttl = schemas.MaxLease
	}
	if ttl <= 0 {
		ttl = schemas.DefaultLease
	}
	return schemas.LeaseKept(ttl).Round(time.Second)
}

// Command wakes the worker of a record's host for the record's op.
func (p Publisher) Command(ctx context.Context, r schemas.SessionRecord) error {
	subject := fmt.Sprintf("%s.%s.%s", schemas.SubjectCommand, r.Host, r.Name().Key())
	return p.publish(ctx, subject, schemas.Command{Op: r.Op.ID, Epoch: r.Epoch, At: time.Now().UTC()})
}

// Event publishes what happened.
func (p Publisher) Event(ctx context.Context, e schemas.Event) error {
	subject := fmt.Sprintf("%s.%s.%s.%s", schemas.SubjectEvent, e.Tenant, e.Session, e.Type)
	return p.publish(ctx, subject, e)
}

func (p Publisher) publish(ctx context.Context, subject string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message for %s: %w", subject, err)
	}
	if _, err := p.JS.Publish(ctx, subject, data); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
