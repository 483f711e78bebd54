package statekv

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// Seen is a revision at a glance, of which the whole can be had.
type Seen struct {
	Glance
	data []byte
}

// SeenOf gives a record as Skim does.
func SeenOf(v Versioned, data []byte) Seen { return Seen{GlanceOf(v), data} }

// Whole decodes the record.
func (s Seen) Whole() (Versioned, error) { return decodeAt(s.data, s.Rev.seq, s.Stored) }

// Without gives a copy of the encoded record without a field of its own.
func (s Seen) Without(field string) []byte {
	from, to, ok := find(s.data, field)
	if !ok {
		return slices.Clone(s.data)
	}
	out := make([]byte, 0, len(s.data)-(to-from))
	return append(append(out, s.data[:from]...), s.data[to:]...)
}

// find gives where a field of an object begins, and where the next one does. It is not
// found if it is the last one.
func find(data []byte, field string) (from, to int, ok bool) {
	s := scan{data: data}
	for more := s.take('{'); more; more = s.take(',') {
		begin := s.at
		key, ok := s.text()
		if !ok || !s.take(':') {
			return 0, 0, false
		}
		if _, ok := s.value(); !ok {
			return 0, 0, false
		}
		if string(key) == field && s.at < len(data) && data[s.at] == ',' {
			return begin, s.at + 1, true
		}
	}
	return 0, 0, false
}

// Skim is Watch for who needs the whole of few records alone. What fn is given is its own
// until it returns.
func (s *Store) Skim(ctx context.Context, fn func(Seen) error, caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	shared := words{}
	return stream.Consume(ctx, s.js, s.stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		g, err := glance(msg.Data, shared)
		if err == nil {
			g.Rev, g.Stored = Revision{meta.Sequence.Stream}, meta.Timestamp
			err = fn(Seen{g, msg.Data})
		}
		if err != nil {
			return fmt.Errorf("%s: decode record at revision %d: %w", msg.Subject, meta.Sequence.Stream, err)
		}
		return nil
	}, caughtUp, func() {})
}
