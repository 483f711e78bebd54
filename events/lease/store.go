package lease

import (
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

// ErrHeld is the answer to who would end or touch a lease that isn't as it was
// read any more: its holder, or another observer, was quicker.
var ErrHeld = errors.New("the lease was changed meanwhile")

// Versioned is a lease as it stood at one revision; a zero Rev stands for a host that
// never took one.
type Versioned struct {
	schemas.HostLease
	Rev uint64
}

// Store reads and writes leases. It is safe for concurrent use.
type Store struct {
	names   stream.Names
	writer  cas.Writer
	subject func(schemas.HostID) string // where a lease is
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.Leases())
	if err != nil {
		return nil, err
	}
	w.Attempt, w.Retry = 2*time.Second, 100*time.Millisecond // a lease that isn't renewed runs out
	return &Store{names: names, writer: w, subject: names.LeaseSubject}, nil
}

// Get reads a host's lease. The answer may be from the past, which a write on top of
// it finds out.
func (s *Store) Get(ctx context.Context, h schemas.HostID) (Versioned, error) {
	data, seq, err := s.writer.Last(ctx, s.subject(h))
	if err != nil {
		return Versioned{}, fmt.Errorf("read the lease of host %s: %w", h, err)
	}
	if seq == 0 {
		return Versioned{HostLease: schemas.HostLease{Host: h}}, nil
	}
	v := Versioned{Rev: seq}
	if err := json.Unmarshal(data, &v.HostLease); err != nil {
		return Versioned{}, fmt.Errorf("decode the lease of host %s: %w", h, err)
	}
	return v, nil
}

// All reads every lease, sorted by host. It fails if one of them can't be read.
func (s *Store) All(ctx context.Context) ([]Versioned, error) {
	info, err := s.writer.Stream.Info(ctx, jetstream.WithSubjectFilter(s.names.LeaseSubject("")))
	if err != nil {
		return nil, fmt.Errorf("list the leases: %w", err)
	}
	prefix := len(s.names.LeaseSubject("")) - 1
	var out []Versioned
	for subject := range info.State.Subjects {
		v, err := s.Get(ctx, schemas.HostID(subject[prefix:]))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Versioned) int {
		if a.Host < b.Host {
			return -1
		}
		return 1
	})
	return out, nil
}

// follow calls heard with every host's lease, then with each new revision, in order, until ctx
// ends or a lease can't be decoded. caughtUp is called once, when all that was stored has been
// given; gap whenever revisions may come late.
func (s *Store) follow(ctx context.Context, heard func(Versioned), caughtUp, gap func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{s.names.LeaseSubject("")}}
	return stream.Consume(ctx, s.writer.JS, s.writer.Stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		v := Versioned{Rev: meta.Sequence.Stream}
		if err := json.Unmarshal(msg.Data, &v.HostLease); err != nil {
			return fmt.Errorf("decode %s: %w", msg.Subject, err)
		}
		heard(v)
		return nil
	}, caughtUp, gap)
}

// end is the last revision of any lease.
func (s *Store) end(ctx context.Context) (uint64, error) {
	info, err := s.writer.Stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("look how far the leases are: %w", err)
	}
	return info.State.LastSeq, nil
}

// swap writes next if prev is still the last revision. Its errors are those of
// package cas.
func (s *Store) swap(ctx context.Context, prev Versioned, next schemas.HostLease) (Versioned, error) {
	next.ID, next.At = nuid.Next(), time.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(next)
	if err != nil {
		return Versioned{}, fmt.Errorf("encode the lease of host %s: %w", next.Host, err)
	}
	seq, err := s.writer.Write(ctx, s.subject(next.Host), prev.Rev, data, func(data []byte) bool {
		var l schemas.HostLease
		return json.Unmarshal(data, &l) == nil && l.ID == next.ID
	})
	if err != nil {
		return Versioned{}, fmt.Errorf("write the lease of host %s: %w", next.Host, err)
	}
	return Versioned{next, seq}, nil
}

// Expire ends a lease that Judge found to have run out, or says again that it is
// ended: its host writes to a record after that only after it took a new lease.
// ErrHeld says that the lease was renewed or taken again.
func (s *Store) Expire(ctx context.Context, v Versioned, by string) (Versioned, error) {
	next := v.HostLease
	next.State, next.By = schemas.LeaseExpired, by
	out, err := s.swap(ctx, v, next)
	if errors.Is(err, cas.ErrConflict) {
		return Versioned{}, fmt.Errorf("host %s: %w", v.Host, ErrHeld)
	}
	return out, err
}
