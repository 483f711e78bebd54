package statekv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// ErrNewest is the answer to a purge that would take the newest revision of a session that
// isn't removed.
var ErrNewest = errors.New("the session's newest revision stays in the log")

// Entry is one revision as the log stores it.
type Entry struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Headers map[string][]string
	Value   []byte
}

// Record decodes what an entry says.
func (e Entry) Record() (Versioned, error) { return decodeAt(e.Value, e.Seq, e.Time) }

func entryOf(m *jetstream.RawStreamMsg) Entry {
	return Entry{Subject: m.Subject, Seq: m.Sequence, Time: m.Time, Headers: m.Header, Value: m.Data}
}

// Extent is which entries the log has, and how it tells the time.
type Extent struct {
	Created time.Time // when the log was made: another time is another log
	Last    uint64    // the sequence of its newest entry, whether that is still there or not
	Oldest  time.Time // when it stored the oldest entry that is still there
	Newest  time.Time // and the newest
	Entries uint64    // how many there are
	Now     time.Time
}

// Extent asks the log's leader.
func (s *Store) Extent(ctx context.Context) (Extent, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return Extent{}, fmt.Errorf("ask for the extent of the log: %w", err)
	}
	return Extent{
		Created: info.Created.UTC(), Last: info.State.LastSeq, Oldest: info.State.FirstTime, Newest: info.State.LastTime,
		Entries: info.State.Msgs, Now: info.TimeStamp,
	}, nil
}

// Counts says how many revisions the log has of each session.
func (s *Store) Counts(ctx context.Context) (map[schemas.Name]uint64, error) {
	prefix := s.names.SessionSubject(schemas.Name{})
	prefix = strings.TrimSuffix(prefix, ".")
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("count the revisions of the log: %w", err)
	}
	out := make(map[schemas.Name]uint64, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		tenant, session, ok := strings.Cut(strings.TrimPrefix(subject, prefix), ".")
		if ok {
			out[schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(session)}] = n
		}
	}
	return out, nil
}

// Entries calls fn with a session's entries after a revision, oldest first, until there are no
// more or fn says that it needs none.
func (s *Store) Entries(ctx context.Context, n schemas.Name, after Revision, fn func(Entry) (more bool, err error)) error {
	subject := s.names.SessionSubject(n)
	for seq := after.seq; ; {
		raw, err := s.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the entries of %s: %w", n, err)
		}
		if more, err := fn(entryOf(raw)); err != nil || !more {
			return err
		}
		seq = raw.Sequence
	}
}

// EntryAt gives the entry of a sequence; ok is false if the log hasn't got it.
func (s *Store) EntryAt(ctx context.Context, seq uint64) (e Entry, ok bool, err error) {
	raw, err := s.stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("read entry %d of the log: %w", seq, err)
	}
	return entryOf(raw), true, nil
}

// Purge drops the revisions of one session up to and with one. With removed that may be the
// newest, if it says that the session is removed and nothing is left to do; else, and for any
// other session, it is ErrNewest and nothing is dropped. A revision that is written meanwhile
// is later than the one named, and stays. Purging twice is no error.
func (s *Store) Purge(ctx context.Context, n schemas.Name, through Revision, removed bool) error {
	last, err := s.get(ctx, n)
	if errors.Is(err, ErrNoSession) {
		return nil
	}
	if err != nil {
		return err
	}
	if last.Rev.seq <= through.seq && (!removed || last.State != schemas.Deleted || last.Op != nil) {
		return fmt.Errorf("purge session %s up to entry %d: %w", n, through.seq, ErrNewest)
	}
	err = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.names.SessionSubject(n)), jetstream.WithPurgeSequence(through.seq+1))
	if err != nil {
		return fmt.Errorf("purge session %s up to entry %d: %w", n, through.seq, err)
	}
	return nil
}
