package policykv

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

// ErrVersion is the answer to a change of a version that is no longer the last.
var ErrVersion = errors.New("the policy was changed by someone else")

// Versioned is a document as it stood at one revision of the bucket; one of version 0
// stands for a scope that has none.
type Versioned struct {
	schemas.PolicyDocument
	Seq uint64 // grows with every change of any document
}

// Store reads and changes the documents. It is safe for concurrent use.
type Store struct {
	names  stream.Names
	writer cas.Writer
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.Policies())
	if err != nil {
		return nil, err
	}
	return &Store{names: names, writer: w}, nil
}

// Get reads a scope's document from the stream's leader.
func (s *Store) Get(ctx context.Context, scope schemas.PolicyScope) (Versioned, error) {
	data, seq, err := s.writer.Last(ctx, s.names.PolicySubject(scope))
	if err != nil {
		return Versioned{}, fmt.Errorf("read the policy of %s: %w", scope, err)
	}
	if seq == 0 {
		return Versioned{PolicyDocument: schemas.PolicyDocument{Scope: scope}}, nil
	}
	return decode(data, seq)
}

func decode(data []byte, seq uint64) (Versioned, error) {
	v := Versioned{Seq: seq}
	if err := json.Unmarshal(data, &v.PolicyDocument); err != nil {
		return Versioned{}, fmt.Errorf("decode the policy at revision %d: %w", seq, err)
	}
	return v, nil
}

// Set replaces prev, which Get gave, with doc: of it the scope, the uid, the policy or the defaults,
// and who changes it and why. The errors are those of its Validate, ErrVersion if prev is no
// longer the last, and cas.ErrUnknown.
func (s *Store) Set(ctx context.Context, prev Versioned, doc schemas.PolicyDocument) (Versioned, error) {
	if err := doc.Validate(); err != nil {
		return Versioned{}, fmt.Errorf("policy of %s: %w", doc.Scope, err)
	}
	doc.Version, doc.Change.ID, doc.Change.At = prev.Version+1, nuid.Next(), time.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(doc)
	if err != nil {
		return Versioned{}, fmt.Errorf("encode the policy of %s: %w", doc.Scope, err)
	}
	seq, err := s.writer.Write(ctx, s.names.PolicySubject(doc.Scope), prev.Seq, data, func(data []byte) bool {
		v, err := decode(data, 0)
		return err == nil && v.Change.ID == doc.Change.ID
	})
	if errors.Is(err, cas.ErrConflict) {
		return Versioned{}, fmt.Errorf("change the policy of %s, version %d: %w", doc.Scope, prev.Version, ErrVersion)
	}
	if err != nil {
		return Versioned{}, fmt.Errorf("change the policy of %s: %w", doc.Scope, err)
	}
	return Versioned{doc, seq}, nil
}

// Drop clears v, which isn't needed any more; its versions stay, as those of every
// policy. A scope that has something else by now is left alone.
func (s *Store) Drop(ctx context.Context, v Versioned, by, reason string) error {
	_, err := s.Set(ctx, v, schemas.PolicyDocument{Scope: v.Scope, UID: v.UID, Change: schemas.PolicyChange{By: by, Reason: reason}})
	if errors.Is(err, ErrVersion) {
		return nil
	}
	return err
}

// Watch calls fn with the last version of every document, then with each new one, from
// one goroutine, until ctx ends; what can't be read goes to bad. caughtUp is called
// once, when all that was there at the beginning has been delivered.
func (s *Store) Watch(ctx context.Context, fn func(Versioned), bad func(error), caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	return stream.Consume(ctx, s.writer.JS, s.writer.Stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		v, err := decode(msg.Data, meta.Sequence.Stream)
		if err == nil {
			err = v.Validate()
		}
		if want := s.names.PolicySubject(v.Scope); err == nil && msg.Subject != want {
			err = fmt.Errorf("it says that it is that of %q", v.Scope)
		}
		if err != nil {
			bad(fmt.Errorf("%s: %w", msg.Subject, err))
			return nil
		}
		fn(v)
		return nil
	}, caughtUp, func() {})
}
