package statekv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
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
	// ErrPast is the answer to a read that only a server gave that has lost its
	// place in the cluster: an older revision than one that was seen.
	ErrPast = errors.New("the server answers with the past")
)

// ReadError is the answer to a read that failed: nothing is known of the record.
type ReadError struct {
	Name schemas.Name
	Err  error
}

func (e *ReadError) Error() string { return fmt.Sprintf("read record of %s: %v", e.Name, e.Err) }

// Unwrap gives the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Revision is an opaque token of one revision of a record; zero stands for a
// key that was never written.
type Revision struct{ seq uint64 }

// RevisionAt makes the token of a log's entry, for who keeps records otherwise than
// a Store does.
func RevisionAt(seq uint64) Revision { return Revision{seq} }

// Seq is the place of the entry in the log; 0 of a key that was never written.
func (r Revision) Seq() uint64 { return r.seq }

// Versioned is a record as it stood at one revision.
type Versioned struct {
	schemas.SessionRecord
	Rev    Revision
	Stored time.Time // when the log took it, by the server's clock; zero straight after a swap
}

// Store reads and swaps session records. It is safe for concurrent use.
type Store struct {
	js     jetstream.JetStream
	names  stream.Names
	stream jetstream.Stream
	// Attempt is how long one write waits for its answer, and how long a read looks
	// for one that isn't from the past; Retry is the pause before either is repeated.
	Attempt, Retry time.Duration
	// Swapped, if given, is called after each swap, in its caller's goroutine: it is set
	// before the first and must not block.
	Swapped func(Swapped)
	seen    *horizon
}

// Open finds the bucket; stream.Ensure makes it.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	s, err := js.Stream(ctx, names.SessionStream())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", names.Sessions(), err)
	}
	return &Store{js: js, names: names, stream: s, Attempt: 5 * time.Second, Retry: 250 * time.Millisecond, seen: newHorizon()}, nil
}

// Get reads the last revision from the stream's leader. For a key that was
// never written it is ErrNoSession. It is never older than what this store wrote
// or read before: a leader that was deposed and doesn't know it yet is asked again
// until another answers, or the answer is ErrPast. What others wrote meanwhile
// may still be missing.
func (s *Store) Get(ctx context.Context, n schemas.Name) (Versioned, error) {
	for deadline := time.Now().Add(s.Attempt); ; {
		v, err := s.get(ctx, n)
		if known := s.seen.at(n); v.Rev.seq < known && (err == nil || errors.Is(err, ErrNoSession)) {
			err = &ReadError{Name: n, Err: fmt.Errorf("%w: revision %d, after %d", ErrPast, v.Rev.seq, known)}
		}
		if err == nil {
			s.seen.reach(v)
		}
		if !errors.Is(err, ErrPast) || time.Now().After(deadline) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return Versioned{}, err
		case <-time.After(s.Retry):
		}
	}
}

func (s *Store) get(ctx context.Context, n schemas.Name) (Versioned, error) {
	raw, err := s.stream.GetLastMsgForSubject(ctx, s.names.SessionSubject(n))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Versioned{}, fmt.Errorf("session %s: %w", n, ErrNoSession)
	}
	if err != nil {
		return Versioned{}, &ReadError{Name: n, Err: err}
	}
	return decodeAt(raw.Data, raw.Sequence, raw.Time)
}

func decodeAt(data []byte, seq uint64, stored time.Time) (Versioned, error) {
	v, err := decode(data, seq)
	v.Stored = stored
	return v, err
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
	began := time.Now()
	next, err := s.swap(ctx, prev, t)
	if s.Swapped != nil {
		s.Swapped(Swapped{Before: prev, After: next, Type: t.Type, Took: time.Since(began), Err: err})
	}
	return next, err
}

func (s *Store) swap(ctx context.Context, prev Versioned, t schemas.Transition) (Versioned, error) {
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
	out := Versioned{SessionRecord: next, Rev: Revision{seq}}
	s.seen.reach(out)
	return out, nil
}

func (s *Store) write(ctx context.Context, n schemas.Name, expected Revision, data []byte, id string) (uint64, error) {
	w := cas.Writer{JS: s.js, Stream: s.stream, Attempt: s.Attempt, Retry: s.Retry}
	seq, err := w.Write(ctx, s.names.SessionSubject(n), expected.seq, data, func(data []byte) bool {
		v, err := decode(data, 0)
		return err == nil && v.Transition.ID == id
	})
	switch {
	case errors.Is(err, cas.ErrConflict):
		return 0, ErrConflict
	case errors.Is(err, cas.ErrUnknown):
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return seq, err
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
	out, err := s.HistorySince(ctx, n, Revision{})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("session %s: %w", n, ErrNoSession)
	}
	return out, err
}

// HistorySince gives the revisions of a key after one of them, oldest first.
func (s *Store) HistorySince(ctx context.Context, n schemas.Name, after Revision) ([]Versioned, error) {
	var out []Versioned
	subject, seq := s.names.SessionSubject(n), after.seq
	for {
		raw, err := s.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", n, err)
		}
		v, err := decodeAt(raw.Data, raw.Sequence, raw.Time)
		if err != nil {
			return nil, fmt.Errorf("read history of %s: %w", n, err)
		}
		out, seq = append(out, v), raw.Sequence
	}
}

// Reached is the newest entry of the log that this store wrote, or read by Get, and the id of
// its transition: a log that ends before it, or has another one there, has lost something,
// if that lasts.
func (s *Store) Reached() (seq uint64, id string) { return s.seen.newest() }

// Forget drops what the store knows of newer revisions: for a log that was
// restored from a backup, which may only be read from again when that is known.
func (s *Store) Forget() { s.seen.clear() }
