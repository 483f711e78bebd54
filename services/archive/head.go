package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/segment"
)

// Head says where the chain of segments ends. The zero one is of a log of which nothing was moved.
type Head struct {
	ID  string      `json:"id"` // of the write
	End segment.Ref `json:"end"`
	Log time.Time   `json:"log"` // when the log was made that End is of
	Key string      `json:"key"` // the age recipient of the segments
	At  time.Time   `json:"at"`  // when this was written, by the clock of the log
	// Through is the time since which NATS alone tells the state of every session.
	Through time.Time `json:"through"`
	// Pending says that revisions of the last segment may still be in NATS.
	Pending bool `json:"pending,omitempty"`
	// Top is the highest sequence of all segments.
	Top   uint64 `json:"top"`
	Bytes int64  `json:"bytes"` // of all segments in the store
	Forks []Fork `json:"forks,omitempty"`
}

// Fork says that the log went back: NATS was restored from a backup, or its store was lost. From
// Cut on, entries of the segments up to one aren't the log's any more, and another may have their
// sequence.
type Fork struct {
	Number uint64    `json:"number"` // of the last of these segments
	Cut    uint64    `json:"cut"`    // the first sequence; 1 for all of another log
	Log    time.Time `json:"log"`    // when the log was made that they are of
	At     time.Time `json:"at"`     // when this was found out, by the clock of the log
}

// String says which entries are meant.
func (f Fork) String() string {
	if f.Cut <= 1 {
		return fmt.Sprintf("log segments up to %d are of an earlier log, made at %s", f.Number, f.Log.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the log went back: entries from %d on in log segments up to %d aren't in it any more", f.Cut, f.Number)
}

// has reports whether an entry of a segment is the log's.
func (h Head) has(number, seq uint64) bool {
	for _, f := range h.Forks {
		if number <= f.Number && seq >= f.Cut {
			return false
		}
	}
	return true
}

// Heads keeps the head of one fleet.
type Heads interface {
	// Get reads the head, and its revision: the zero head and 0 if there is none.
	Get(ctx context.Context) (h Head, rev uint64, err error)
	// Swap replaces the head that was read at a revision, and gives the new one. After ErrMoved
	// nothing was changed; after any other error that isn't known.
	Swap(ctx context.Context, rev uint64, h Head) (uint64, error)
}

// ErrMoved is the answer to a swap of a head that another archive has changed.
var ErrMoved = errors.New("another archive moved the head")

// natsHeads is the Heads of a NATS server.
type natsHeads struct {
	writer  cas.Writer
	subject string
}

// OpenHeads finds the head's bucket; stream.Ensure makes it.
func OpenHeads(ctx context.Context, js jetstream.JetStream, names stream.Names) (Heads, error) {
	w, err := cas.Open(ctx, js, names.Fleet())
	if err != nil {
		return nil, err
	}
	return natsHeads{w, names.ArchiveSubject()}, nil
}

func (s natsHeads) Get(ctx context.Context) (h Head, rev uint64, err error) {
	data, rev, err := s.writer.Last(ctx, s.subject)
	if err == nil && rev > 0 {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		return Head{}, 0, fmt.Errorf("read the end of the log's archive: %w", err)
	}
	return h, rev, nil
}

func (s natsHeads) Swap(ctx context.Context, rev uint64, h Head) (uint64, error) {
	h.ID = nuid.Next()
	data, err := json.Marshal(h)
	if err != nil {
		return 0, fmt.Errorf("encode the end of the log's archive: %w", err)
	}
	rev, err = s.writer.Write(ctx, s.subject, rev, data, func(data []byte) bool {
		var w Head
		return json.Unmarshal(data, &w) == nil && w.ID == h.ID
	})
	if errors.Is(err, cas.ErrConflict) {
		return 0, ErrMoved
	}
	if err != nil {
		return 0, fmt.Errorf("write the end of the log's archive: %w", err)
	}
	return rev, nil
}
