package million

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// inFlight bounds the writes whose answers are awaited.
const inFlight = 4000

// stall is how long a busy server may take until it answers one of them.
const stall = time.Minute

// writer writes to streams without waiting for each answer, but for all of them in
// the end.
type writer struct {
	js     jetstream.JetStream
	failed error
}

func newWriter(nc *nats.Conn) (*writer, error) {
	w := &writer{}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			w.failed = fmt.Errorf("write %s: %w", m.Subject, err)
		}))
	w.js = js
	return w, err
}

func (w *writer) put(subject string, data []byte) error {
	_, err := w.js.PublishAsync(subject, data, jetstream.WithStallWait(stall))
	return err
}

func (w *writer) wait(ctx context.Context) error {
	select {
	case <-w.js.PublishAsyncComplete():
		return w.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Fill writes the records and the last words of n sessions into streams as
// Diapause makes them.
func Fill(ctx context.Context, nc *nats.Conn, n, replicas int) error {
	w, err := newWriter(nc)
	if err != nil {
		return err
	}
	names := stream.NamesWith("")
	if err := stream.Ensure(ctx, w.js, names, replicas); err != nil {
		return err
	}
	for i := range n {
		for _, s := range saidOf(i) {
			if err := w.put(s.subject, []byte(s.payload)); err != nil {
				return err
			}
		}
	}
	if err := w.wait(ctx); err != nil {
		return err
	}
	seq, err := stream.LastActivity(ctx, w.js, names)
	if err != nil {
		return err
	}
	if err := w.records(names, n, seq); err != nil {
		return err
	}
	return w.wait(ctx)
}

// records writes the revisions of n sessions.
func (w *writer) records(names stream.Names, n int, seq uint64) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i := range n {
		life, err := lifeOf(i, now, seq)
		if err != nil {
			return err
		}
		for _, r := range life {
			data, err := json.Marshal(r)
			if err != nil {
				return err
			}
			if err := w.put(names.SessionSubject(r.Name()), data); err != nil {
				return err
			}
		}
	}
	return nil
}
