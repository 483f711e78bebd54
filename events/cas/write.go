package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrConflict is the answer to a write whose expected revision is no longer
	// the last.
	ErrConflict = errors.New("changed by another writer")
	// ErrUnknown is the answer to a write that may or may not have happened.
	ErrUnknown = errors.New("it is not known whether the write happened")
	// ErrFull is the answer of a server that has no room, for as long as one attempt
	// may take; nothing was written.
	ErrFull = errors.New("NATS is full: raise the stream's or account's limit, or free disk")
)

// Writer writes to the subjects of one stream. It is safe for concurrent use.
type Writer struct {
	JS     jetstream.JetStream
	Stream jetstream.Stream
	// Attempt is how long one write waits for its answer, Retry the pause before
	// it is repeated.
	Attempt, Retry time.Duration
}

// Open gives a writer to a KV bucket, which stream.Ensure makes. It waits for 5 s for an
// answer and for 250 ms before it asks again; its caller may set that otherwise.
func Open(ctx context.Context, js jetstream.JetStream, bucket string) (Writer, error) {
	s, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return Writer{}, fmt.Errorf("find bucket %s: %w", bucket, err)
	}
	return Writer{JS: js, Stream: s, Attempt: 5 * time.Second, Retry: 250 * time.Millisecond}, nil
}

// Last reads a subject's last message, and its sequence, from the stream's leader: none,
// and 0, if it never had one. The answer may be from the past, which a write on top of it
// finds out.
func (w Writer) Last(ctx context.Context, subject string) (data []byte, seq uint64, err error) {
	raw, err := w.Stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return raw.Data, raw.Sequence, nil
}

// Write stores data if expected is the subject's last sequence, 0 for none, and
// gives the new one. mine tells data from what others wrote: it has to carry an
// id of its own. Besides the errors above it returns what the server says where
// that means that nothing was written.
func (w Writer) Write(ctx context.Context, subject string, expected uint64, data []byte, mine func(data []byte) bool) (uint64, error) {
	unanswered, began := false, time.Now()
	for {
		ack, err := w.publish(ctx, subject, expected, data)
		switch {
		case err == nil:
			return ack.Sequence, nil
		case mismatch(err):
			seq, found, ferr := w.find(ctx, subject, expected, mine)
			if ferr == nil && found {
				return seq, nil
			}
			if ferr == nil && (seq > expected || !unanswered && expected > 0 && w.gone(ctx, subject)) {
				return 0, ErrConflict
			}
			// The server refused and shows nothing newer: another write of that
			// key is in flight. Ask again.
		case full(err) && !unanswered:
			// A server that is short of memory may have some in a moment.
			if time.Since(began) >= w.Attempt {
				return 0, fmt.Errorf("%w: %w", ErrFull, err)
			}
		case definite(err) && !unanswered:
			return 0, err
		default:
			unanswered = true // one without an answer may still be on its way
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		case <-time.After(w.Retry):
		}
	}
}

func (w Writer) publish(ctx context.Context, subject string, expected uint64, data []byte) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Attempt)
	defer cancel()
	return w.JS.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data},
		jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0))
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

// full reports whether the server refused a write since it had no room, before it stored
// any of it. Other failures of its store aren't counted.
func full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeInsufficientResources, codeStorageExceeded, codeMemoryExceeded:
		return true
	case codeStoreFailed:
		return slices.Contains([]string{"maximum bytes exceeded", "maximum messages exceeded"}, api.Description)
	}
	return false
}

// The server's reasons for having no room.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeMemoryExceeded        jetstream.ErrorCode = 10028
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
)

// gone reports whether a subject has no message any more: what was expected was purged.
func (w Writer) gone(ctx context.Context, subject string) bool {
	ctx, cancel := context.WithTimeout(ctx, w.Attempt)
	defer cancel()
	_, seq, err := w.Last(ctx, subject)
	return err == nil && seq == 0
}

// find looks for what was written among a subject's revisions above expected, and
// gives the highest that it saw.
func (w Writer) find(ctx context.Context, subject string, expected uint64, mine func([]byte) bool) (seq uint64, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.Attempt)
	defer cancel()
	seq = expected
	for {
		raw, err := w.Stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return seq, false, nil
		}
		if err != nil {
			return seq, false, err
		}
		seq = raw.Sequence
		if mine(raw.Data) {
			return seq, true, nil
		}
	}
}
