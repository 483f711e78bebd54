package hostkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Versioned is an order as it stood at one revision; the zero Seq stands for a host that has none.
type Versioned struct {
	schemas.HostOrder
	Seq uint64 // grows with every revision of any order
}

// Store reads and changes the orders. It is safe for concurrent use.
type Store struct {
	names  stream.Names
	writer cas.Writer
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.HostOrders())
	if err != nil {
		return nil, err
	}
	return &Store{names: names, writer: w}, nil
}

// Get reads a host's order from the stream's leader.
func (s *Store) Get(ctx context.Context, h schemas.HostID) (Versioned, error) {
	data, seq, err := s.writer.Last(ctx, s.names.HostOrderSubject(h))
	if err != nil {
		return Versioned{}, fmt.Errorf("read the order of host %s: %w", h, err)
	}
	if seq == 0 {
		return Versioned{HostOrder: schemas.HostOrder{Host: h}}, nil
	}
	return decode(data, seq)
}

func decode(data []byte, seq uint64) (Versioned, error) {
	v := Versioned{Seq: seq}
	if err := json.Unmarshal(data, &v.HostOrder); err != nil {
		return Versioned{}, fmt.Errorf("decode the order at revision %d: %w", seq, err)
	}
	return v, nil
}

// Update reads a host's order and writes what change makes of it, again if another writer was
// quicker. change sets By; with ok false, or an error, nothing is written. The errors are
// change's and cas.ErrUnknown.
func (s *Store) Update(ctx context.Context, h schemas.HostID, change func(o *schemas.HostOrder) (ok bool, err error)) (Versioned, error) {
	for {
		prev, err := s.Get(ctx, h)
		if err != nil {
			return Versioned{}, err
		}
		next := prev.HostOrder
		if ok, err := change(&next); err != nil || !ok {
			return prev, err
		}
		next.Host, next.Version, next.ID, next.Since = h, prev.Version+1, nuid.Next(), time.Now().UTC().Truncate(time.Millisecond)
		seq, err := s.write(ctx, prev.Seq, next)
		if errors.Is(err, cas.ErrConflict) {
			continue
		}
		if err != nil {
			return Versioned{}, fmt.Errorf("change the order of host %s: %w", h, err)
		}
		return Versioned{next, seq}, nil
	}
}

func (s *Store) write(ctx context.Context, expected uint64, next schemas.HostOrder) (uint64, error) {
	data, err := json.Marshal(next)
	if err != nil {
		return 0, err
	}
	return s.writer.Write(ctx, s.names.HostOrderSubject(next.Host), expected, data, func(data []byte) bool {
		v, err := decode(data, 0)
		return err == nil && v.ID == next.ID
	})
}

// Watch calls fn with the last revision of every order, then with each new one, from one
// goroutine, until ctx ends. caughtUp is called once, when all that was there at the beginning
// has been delivered.
func (s *Store) Watch(ctx context.Context, fn func(Versioned), caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	return stream.Consume(ctx, s.writer.JS, s.writer.Stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		v, err := decode(msg.Data, meta.Sequence.Stream)
		if err != nil {
			return fmt.Errorf("%s: %w", msg.Subject, err)
		}
		fn(v)
		return nil
	}, caughtUp, func() {})
}
