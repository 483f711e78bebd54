package statekv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

var (
	// ErrNoSession is the answer for a key that was never written.
	ErrNoSession = errors.New("no such session")
	// ErrConflict is the answer to a swap whose revision is no longer the last.
	ErrConflict = errors.New("the session's record was changed by someone else")
	// ErrUnknown is the answer to a swap that may or may not have happened.
	ErrUnknown = errors.New("it is not known whether the session's record was changed")
)

// Revision is an opaque token of one revision of a record; zero stands for a
// key that was never written.
type Revision struct{ seq uint64 }

// Versioned is a record as it stood at one revision.
type Versioned struct {
	schemas.SessionRecord
	Rev Revision
}

// Store reads and swaps session records. It is safe for concurrent use.
type Store struct {
	js     jetstream.JetStream
	names  stream.Names
	stream jetstream.Stream
	// Attempt is how long one write waits for its answer, Retry the pause before
	// it is repeated.
	Attempt, Retry time.Duration
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	s, err := js.Stream(ctx, names.SessionStream())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", names.Sessions(), err)
	}
	return &Store{js: js, names: names, stream: s, Attempt: 5 * time.Second, Retry: 250 * time.Millisecond}, nil
}

// Get reads the last revision from the stream's leader. For a key that was
// never written it is ErrNoSession.
func (s *Store) Get(ctx context.Context, n schemas.Name) (Versioned, error) {
	raw, err := s.stream.GetLastMsgForSubject(ctx, s.names.SessionSubject(n))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Versioned{}, fmt.Errorf("session %s: %w", n, ErrNoSession)
	}
	if err != nil {
		return Versioned{}, fmt.Errorf("read record of %s: %w", n, err)
	}
	return decode(raw.Data, raw.Sequence)
}

func decode(data []byte, seq uint64) (Versioned, error) {
	v := Versioned{Rev: Revision{seq}}
	if err := json.Unmarshal(data, &v.SessionRecord); err != nil {
		return Versioned{}, fmt.Errorf("decode record at revision %d: %w", seq, err)
	}
	return v, nil
}

// Swap applies t to prev and writes the result if prev is still the last
// revision. It fills in the transition's id, and its time if it has none. The
// errors are session.ErrIllegal, ErrConflict and ErrUnknown; after the first
// two nothing was changed.
func (s *Store) Swap(ctx context.Context, prev Versioned, t schemas.Transition) (Versioned, error) {
	t.ID = nuid.Next()
	if t.At.IsZero() {
		t.At = time.Now().UTC().Truncate(time.Millisecond)
	}
	next, err := session.Apply(prev.SessionRecord, t)
	if err != nil {
		return Versioned{}, fmt.Errorf("session %s: %w", prev.Name(), err)
	}
	data, err := json.Marshal(next)
	if err != nil {
		return Versioned{}, fmt.Errorf("encode record of %s: %w", next.Name(), err)
	}
	seq, err := s.write(ctx, next.Name(), prev.Rev, data, t.ID)
	if err != nil {
		return Versioned{}, fmt.Errorf("%s session %s: %w", t.Type, next.Name(), err)
	}
	return Versioned{SessionRecord: next, Rev: Revision{seq}}, nil
}

func (s *Store) write(ctx context.Context, n schemas.Name, expected Revision, data []byte, id string) (uint64, error) {
	subject := s.names.SessionSubject(n)
	repeated := false
	for {
		ack, err := s.publish(ctx, subject, expected, data)
		switch {
		case err == nil:
			return ack.Sequence, nil
		case mismatch(err):
			seq, found, ferr := s.find(ctx, subject, expected, id)
			if ferr == nil && found {
				return seq, nil
			}
			if ferr == nil && seq > expected.seq {
				return 0, ErrConflict
			}
			// The server refused and shows nothing newer: another write of that
			// key is in flight. Ask again.
		case definite(err) && !repeated:
			return 0, err
		}
		repeated = true
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		case <-time.After(s.Retry):
		}
	}
}

func (s *Store) publish(ctx context.Context, subject string, expected Revision, data []byte) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Attempt)
	defer cancel()
	return s.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data},
		jetstream.WithExpectLastSequencePerSubject(expected.seq), jetstream.WithRetryAttempts(0))
}

// mismatch reports whether the server refused a write for its expected revision:
// 10071 if that isn't the last, 10164 also while another write is in flight.
func mismatch(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == codeWrongLastSequenceConstant)
}

const codeWrongLastSequenceConstant jetstream.ErrorCode = 10164

// definite reports whether an error says that nothing was written: the server
// answered, or the message never left.
func definite(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code < 500 || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrInvalidMsg)
}

// find looks for a transition among a key's revisions above expected, and gives
// the highest revision that it saw.
func (s *Store) find(ctx context.Context, subject string, expected Revision, id string) (seq uint64, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Attempt)
	defer cancel()
	seq = expected.seq
	for {
		raw, err := s.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return seq, false, nil
		}
		if err != nil {
			return seq, false, err
		}
		seq = raw.Sequence
		v, err := decode(raw.Data, raw.Sequence)
		if err == nil && v.Transition.ID == id {
			return seq, true, nil
		}
	}
}

// Update reads the record and swaps it by what decide makes of it, again if
// someone else was quicker. decide returns ok false to leave it alone.
func (s *Store) Update(ctx context.Context, n schemas.Name, decide func(schemas.SessionRecord) (t schemas.Transition, ok bool, err error)) (Versioned, error) {
	for {
		prev, err := s.Get(ctx, n)
		if err != nil && !errors.Is(err, ErrNoSession) {
			return Versioned{}, err
		}
		t, ok, derr := decide(prev.SessionRecord)
		if derr != nil || !ok {
			return prev, derr
		}
		next, err := s.Swap(ctx, prev, t)
		if !errors.Is(err, ErrConflict) {
			return next, err
		}
	}
}

// History gives every revision of a key, oldest first.
func (s *Store) History(ctx context.Context, n schemas.Name) ([]Versioned, error) {
	var out []Versioned
	subject, seq := s.names.SessionSubject(n), uint64(0)
	for {
		raw, err := s.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", n, err)
		}
		v, err := decode(raw.Data, raw.Sequence)
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", n, err)
		}
		out, seq = append(out, v), raw.Sequence
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("session %s: %w", n, ErrNoSession)
	}
	return out, nil
}
