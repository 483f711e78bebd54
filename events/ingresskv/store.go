package ingresskv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

var (
	// ErrTaken is the answer to a listener at an address of a part that has one already.
	ErrTaken = errors.New("the part has a listener at that address")
	// ErrNone is the answer to the removal of a listener that there isn't.
	ErrNone = errors.New("no such listener")
	// ErrNoBucket: the streams were made by a version that knows no listeners.
	ErrNoBucket = errors.New("the streams have no bucket of listeners")
)

// Store changes and follows listeners. It is safe for concurrent use.
type Store struct {
	names  stream.Names
	writer cas.Writer
	now    func() time.Time
}

// Open finds the bucket; stream.Ensure makes it. The error is ErrNoBucket if there is none.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.Ingress())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrNoBucket, err)
	}
	if err != nil {
		return nil, err
	}
	return &Store{names: names, writer: w, now: time.Now}, nil
}

// Add adds a listener, and gives it with the time. The error is ErrTaken, and the other one is given, if there is one.
func (s *Store) Add(ctx context.Context, l schemas.Listener) (schemas.Listener, error) {
	for {
		v, err := s.get(ctx, l.Part, l.Address)
		if err != nil {
			return l, err
		}
		if v.there() {
			return v.Listener, ErrTaken
		}
		l.Added = s.now().UTC().Truncate(time.Second)
		if err := s.write(ctx, stored{schemas.ListenerRecord{Listener: l}, v.seq}); !errors.Is(err, cas.ErrConflict) {
			return l, err
		}
	}
}

// Remove removes a listener, and gives it. The error is ErrNone if there is none.
func (s *Store) Remove(ctx context.Context, part, address string) (schemas.Listener, error) {
	for {
		v, err := s.get(ctx, part, address)
		if err != nil {
			return schemas.Listener{}, err
		}
		if !v.there() {
			return schemas.Listener{}, ErrNone
		}
		v.Removed = s.now().UTC().Truncate(time.Second)
		if err := s.write(ctx, v); !errors.Is(err, cas.ErrConflict) {
			return v.Listener, err
		}
	}
}

// List gives all listeners, by part and address.
func (s *Store) List(ctx context.Context) (all []schemas.Listener, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	complete := false
	err = s.follow(ctx, s.names.IngressSubject("", ""), func(r schemas.ListenerRecord, live bool) {
		if r.Removed.IsZero() && !live {
			all = append(all, r.Listener)
		}
	}, func(error) {}, func() { complete = true; stop() })
	if err == nil && !complete {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list the listeners: %w", err)
	}
	slices.SortFunc(all, func(a, b schemas.Listener) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Address, b.Address))
	})
	return all, nil
}

// Watch calls fn from the caller's goroutine with each listener of a part, and again when it is changed or removed, until
// ctx ends. refused gets what isn't a listener.
func (s *Store) Watch(ctx context.Context, part string, fn func(schemas.ListenerRecord), refused func(error)) error {
	return s.follow(ctx, s.names.IngressSubject(part, ""), func(r schemas.ListenerRecord, _ bool) { fn(r) }, refused, func() {})
}

func (s *Store) follow(ctx context.Context, subject string, fn func(schemas.ListenerRecord, bool), refused func(error), caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{subject}}
	return stream.Consume(ctx, s.writer.JS, s.writer.Stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
		v, err := decode(msg.Data, meta.Sequence.Stream)
		if err != nil {
			refused(err)
			return nil
		}
		fn(v.ListenerRecord, live)
		return nil
	}, caughtUp, func() {})
}

// stored is a record as it stood at a sequence of the stream; 0 if there is none.
type stored struct {
	schemas.ListenerRecord
	seq uint64
}

func (v stored) there() bool { return v.seq > 0 && v.Removed.IsZero() }

func (s *Store) get(ctx context.Context, part, address string) (stored, error) {
	data, seq, err := s.writer.Last(ctx, s.names.IngressSubject(part, address))
	if err != nil {
		return stored{}, fmt.Errorf("read the listener: %w", err)
	}
	if seq == 0 {
		return stored{}, nil
	}
	return decode(data, seq)
}

func decode(data []byte, seq uint64) (stored, error) {
	v := stored{seq: seq}
	if err := json.Unmarshal(data, &v.ListenerRecord); err != nil {
		return stored{}, fmt.Errorf("decode the listener at revision %d: %w", seq, err)
	}
	return v, nil
}

func (s *Store) write(ctx context.Context, v stored) error {
	v.Change = nuid.Next()
	data, err := json.Marshal(v.ListenerRecord)
	if err != nil {
		return fmt.Errorf("encode the listener at %s: %w", v.Address, err)
	}
	_, err = s.writer.Write(ctx, s.names.IngressSubject(v.Part, v.Address), v.seq, data, func(data []byte) bool {
		other, err := decode(data, 0)
		return err == nil && other.Change == v.Change
	})
	if err != nil {
		return fmt.Errorf("write the listener at %s: %w", v.Address, err)
	}
	return nil
}
