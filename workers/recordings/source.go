package recordings

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Source is the recording of a session for who indexes it: its parts, once their end is known, and the index itself, which is kept beside it. It is
// for one goroutine at a time.
type Source struct {
	spool  *Spool
	record schemas.SessionRecord
	place  recording.Place
	keys   map[string]age.Identity
}

// Source gives that of a session.
func (s *Spool) Source(r schemas.SessionRecord) *Source {
	return &Source{spool: s, record: r, place: placeOf(r), keys: map[string]age.Identity{}}
}

// With gives the source of a session as it is now. What was known of its keys stays.
func (s *Source) With(r schemas.SessionRecord) *Source {
	out := s.spool.Source(r)
	if out.place == s.place {
		out.keys = s.keys
	}
	return out
}

// End gives the last segment, up to now if the session runs here and was sealed; nil if there is none.
func (s *Source) End(ctx context.Context) (*recording.Ref, error) {
	if s.record.Lineage == "" {
		return nil, nil
	}
	end, known, err := s.spool.end(ctx, s.record)
	if err == nil && end == nil && !known {
		var tip *recording.Segment
		if tip, _, err = recording.Tip(ctx, s.objects(), s.place, s.signers(ctx)); tip != nil {
			end = &tip.Ref
		}
	}
	if err != nil {
		return nil, fmt.Errorf("find the end of the recording of %s: %w", s.record.Name(), err)
	}
	return end, nil
}

func (s *Source) objects() impatient { return impatient{s.spool.Objects, answerWait} }

// Upto gives the segments that lead to one, from a position in the output on.
func (s *Source) Upto(ctx context.Context, end recording.Ref, from int64) (*Reader, error) {
	r := &Reader{spool: s.spool, place: s.place, keys: s.keys}
	err := late{s.spool}.tried(ctx, s.record, func() (*recording.Redaction, error) {
		var err error
		r.chain, err = recording.Follow(ctx, s.objects(), s.place, &end, recording.Part{From: from}, s.signers(ctx))
		return r.chain.Redacted, err
	})
	if err != nil {
		return nil, fmt.Errorf("open the recording of %s: %w", s.record.Name(), err)
	}
	return r, nil
}

func (s *Source) signers(ctx context.Context) func(signer string) []ed25519.PublicKey {
	return s.spool.Snapshots.Signers(ctx, s.place.Tenant)
}

// Commands gives those up to a segment, the last one first.
func (s *Source) Commands(ctx context.Context, end recording.Ref) (*Commands, error) {
	redacted, err := late{s.spool}.redacted(ctx, s.record)
	if err != nil {
		return nil, fmt.Errorf("open the commands of %s: %w", s.record.Name(), err)
	}
	reader := &Reader{spool: s.spool, place: s.place, keys: s.keys}
	return &Commands{reader: reader, lists: recording.FollowLists(s.objects(), s.place, &end, redacted)}, nil
}

// Redacted gives the generation of what was redacted; 0 if nothing was.
func (s *Source) Redacted(ctx context.Context) (uint64, error) {
	is, err := recording.Redacted(ctx, s.objects(), s.place, s.signers(ctx))
	return is.Counts(), err
}

// Index gives the last index that is stored, nil if there is none, and of which generation of what was redacted it is.
func (s *Source) Index(ctx context.Context) (index []byte, redacted uint64, err error) {
	index, h, err := recording.LastIndex(ctx, s.objects(), s.place, s.signers(ctx), s.key)
	return index, h.Redacted, err
}

// PutIndex stores an index up to a segment, in place of those before. It was made of a generation of what was redacted.
func (s *Source) PutIndex(ctx context.Context, covers recording.Ref, redacted uint64, index []byte) error {
	key, err := s.key(ctx, covers.Run)
	if err != nil {
		return err
	}
	return recording.PutIndex(ctx, s.spool.Objects, s.place, recording.IndexHeader{Covers: covers, Signer: s.spool.Host, Redacted: redacted}, index, key, s.spool.Signer)
}

// DropIndex deletes what is stored of indexes.
func (s *Source) DropIndex(ctx context.Context) error {
	return recording.DropIndexes(ctx, s.spool.Objects, s.place)
}

func (s *Source) key(ctx context.Context, run string) (age.Identity, error) {
	return (&Reader{spool: s.spool, place: s.place, keys: s.keys}).key(ctx, recording.Segment{Ref: recording.Ref{Run: run}})
}

// Oldest gives the first segment that is there; nil if there is none.
func (s *Source) Oldest(ctx context.Context) (*recording.Ref, error) {
	return recording.Oldest(ctx, s.objects(), s.place)
}

// Segments are those that were opened, the oldest first.
func (r *Reader) Segments() []recording.Segment { return r.chain.Segments }

// Redacted is the generation of what was redacted of them.
func (r *Reader) Redacted() uint64 { return r.chain.Redacted.Counts() }

// Segment calls fn with the events of one of them.
func (r *Reader) Segment(ctx context.Context, s recording.Segment, fn func(recording.Event) error) error {
	return r.readSegment(ctx, s, fn)
}
