package keykv

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

// Versioned is a record as it stood at one revision; the zero value stands for a
// tenant that has none.
type Versioned struct {
	schemas.TenantKeys
	Seq uint64 // grows with every revision of any record
}

// Store reads and changes the records. It is safe for concurrent use.
type Store struct {
	names  stream.Names
	writer cas.Writer
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.Keys())
	if err != nil {
		return nil, err
	}
	return &Store{names: names, writer: w}, nil
}

// Get reads a tenant's record from the stream's leader, every tenant's if it is
// empty.
func (s *Store) Get(ctx context.Context, t schemas.Tenant) (Versioned, error) {
	data, seq, err := s.writer.Last(ctx, s.names.KeySubject(t))
	if err != nil {
		return Versioned{}, fmt.Errorf("read the keys of %s: %w", who(t), err)
	}
	if seq == 0 {
		return Versioned{TenantKeys: schemas.TenantKeys{Tenant: t}}, nil
	}
	return decode(data, seq)
}

func who(t schemas.Tenant) string {
	if t == "" {
		return "every tenant"
	}
	return "tenant " + string(t)
}

func decode(data []byte, seq uint64) (Versioned, error) {
	v := Versioned{Seq: seq}
	if err := json.Unmarshal(data, &v.TenantKeys); err != nil {
		return Versioned{}, fmt.Errorf("decode the keys at revision %d: %w", seq, err)
	}
	return v, nil
}

// Update reads a tenant's record and writes what change makes of it, again if
// someone else was quicker. change sets Change's Type, Text and Actor; its error is
// returned as it is, and leaves the record alone. With ok false nothing is
// written. The errors are change's and cas.ErrUnknown.
func (s *Store) Update(ctx context.Context, t schemas.Tenant, change func(k *schemas.TenantKeys, now time.Time) (ok bool, err error)) (Versioned, error) {
	for {
		prev, err := s.Get(ctx, t)
		if err != nil {
			return Versioned{}, err
		}
		next, now := clone(prev.TenantKeys), time.Now().UTC().Truncate(time.Millisecond)
		if ok, err := change(&next, now); err != nil || !ok {
			return prev, err
		}
		next.Version, next.Tenant, next.Change.ID, next.Change.At = prev.Version+1, t, nuid.Next(), now
		seq, err := s.write(ctx, t, prev.Seq, next)
		if errors.Is(err, cas.ErrConflict) {
			continue
		}
		if err != nil {
			return Versioned{}, fmt.Errorf("change the keys of %s: %w", who(t), err)
		}
		return Versioned{next, seq}, nil
	}
}

func (s *Store) write(ctx context.Context, t schemas.Tenant, expected uint64, next schemas.TenantKeys) (uint64, error) {
	data, err := json.Marshal(next)
	if err != nil {
		return 0, err
	}
	return s.writer.Write(ctx, s.names.KeySubject(t), expected, data, func(data []byte) bool {
		v, err := decode(data, 0)
		return err == nil && v.Change.ID == next.Change.ID
	})
}

func clone(k schemas.TenantKeys) schemas.TenantKeys {
	k.Readers = append([]schemas.KeyReader(nil), k.Readers...)
	k.Writers = append([]schemas.KeyWriter(nil), k.Writers...)
	k.Change = schemas.KeyChange{}
	return k
}

// Watch calls fn with the last revision of every record, then with each new one,
// from one goroutine, until ctx ends. caughtUp is called once, when all that was
// there at the beginning has been delivered.
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
