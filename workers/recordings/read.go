package recordings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Reader reads what was recorded of a session. It is for one goroutine.
type Reader struct {
	spool *Spool
	place recording.Place
	chain recording.Chain
	keys  map[string]age.Identity
}

// Open finds the recording of a session, up to now if it runs here and was sealed, or else up to its suspend or its end. Of
// one that isn't recorded it has nothing. Of one of which a part is wanted it may have no more than that.
func (s *Spool) Open(ctx context.Context, r schemas.SessionRecord, part recording.Part) (*Reader, error) {
	var out *Reader
	err := late{s}.tried(ctx, r, func() (is *recording.Redaction, err error) {
		out, err = s.open(ctx, r, part)
		return out.chain.Redacted, err
	})
	if err != nil {
		return nil, fmt.Errorf("open the recording of session %s: %w", r.Name(), err)
	}
	return out, nil
}

// open is Open, also of what a redaction wasn't tried on.
func (s *Spool) open(ctx context.Context, r schemas.SessionRecord, part recording.Part) (*Reader, error) {
	out := &Reader{spool: s, place: placeOf(r), keys: map[string]age.Identity{}}
	if r.Lineage == "" {
		return out, nil
	}
	end, known, err := s.end(ctx, r)
	if err == nil && (end != nil || !known) {
		out.chain, err = recording.Follow(ctx, impatient{s.Objects, answerWait}, out.place, end, part, s.Snapshots.Signers(ctx, r.Tenant))
	}
	for _, seg := range out.chain.Segments { // one that can't be read to its end isn't shown
		if err == nil {
			_, err = out.key(ctx, seg)
		}
	}
	return out, err
}

// end gives where a session's recording ends. known says that this was said by this host or an image; else it is the last
// that is stored: of a session that failed, too, for that is when one wants to know what it printed after its snapshot.
func (s *Spool) end(ctx context.Context, r schemas.SessionRecord) (end *recording.Ref, known bool, err error) {
	here, err := s.StoreNow(ctx, r.UID)
	if err != nil && ctx.Err() == nil {
		s.Log.Debug("shows a recording without what isn't stored yet", r.Logged("err", err)...)
		here, err = s.stored(r.UID)
	}
	if r.State == schemas.Running || r.State == schemas.Suspending {
		if err != nil || here == nil {
			return nil, true, err
		}
		return here.End, true, nil
	}
	if r.State == schemas.Exited || r.State == schemas.Failed || r.Head == nil {
		return nil, false, nil
	}
	img, err := s.Snapshots.Open(ctx, r, *r.Head)
	if err != nil {
		return nil, true, err
	}
	defer img.Close()
	e, err := endOf(img)
	if err != nil || e == nil || e.UID != r.UID {
		return nil, true, err
	}
	return e.End, true, nil
}

// Span gives the positions in the output from and up to which there is a recording.
func (r *Reader) Span() (start, end int64) {
	n := len(r.chain.Segments)
	if n == 0 {
		return 0, 0
	}
	return r.chain.Segments[0].Header.Start, r.chain.Segments[n-1].Header.End
}

// Each calls fn with the events of and after a moment, in their order; where something is missing, with a gap. fn's error
// is returned as it is.
func (r *Reader) Each(ctx context.Context, since time.Time, fn func(recording.Event) error) error {
	for i, seg := range r.chain.Segments {
		if !seg.After(since) {
			continue
		}
		err := r.read(ctx, i, func(e recording.Event) error {
			if e.Time.Before(since) {
				return nil
			}
			return fn(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// From calls fn as Each does, but begins where it can be told what the terminal showed at a moment: with the last segment before
// that has a frame at its beginning, or with the first one. found is false, and fn isn't called, if that is before the part that was opened.
func (r *Reader) From(ctx context.Context, at time.Time, fn func(recording.Event) error) (found bool, err error) {
	i := slices.IndexFunc(r.chain.Segments, func(s recording.Segment) bool { return s.After(at) })
	if i < 0 {
		i = len(r.chain.Segments) - 1 // the recording ended before
	}
	partial := len(r.chain.Segments) > 0 && r.chain.Why == nil && r.chain.Segments[0].Header.Previous != nil
	for ; i > 0 || i == 0 && partial; i-- {
		framed, err := r.framed(ctx, i, at)
		if err != nil {
			return false, err
		}
		if framed {
			break
		}
	}
	if i < 0 && partial {
		return false, nil
	}
	for ; i >= 0 && i < len(r.chain.Segments); i++ {
		if err := r.read(ctx, i, fn); err != nil {
			return true, err
		}
	}
	return true, nil
}

// errKnown ends the reading of a segment of which enough is known.
var errKnown = errors.New("enough is known of a segment")

// beforeFrame bounds the output that may be before the frame at a segment's beginning, in bytes: a line that waited for its end is.
const beforeFrame = 16 << 10

// framed reports whether a segment has a frame before its first output, or soon after it and not after a moment.
func (r *Reader) framed(ctx context.Context, i int, at time.Time) (framed bool, err error) {
	before := int64(0)
	err = r.readSegment(ctx, r.chain.Segments[i], func(e recording.Event) error {
		framed = e.Code == recording.Frame && (before == 0 || !e.Time.After(at))
		if before += e.Length(); framed || before > beforeFrame || before > 0 && e.Time.After(at) {
			return errKnown
		}
		return nil
	})
	if errors.Is(err, errKnown) {
		err = nil
	}
	return framed, err
}

// read calls fn with the events of a segment, after a gap if output before it is missing.
func (r *Reader) read(ctx context.Context, i int, fn func(recording.Event) error) error {
	seg := r.chain.Segments[i]
	if i > 0 { // of the first one Why says it; and a fork's begins where that of its origin was
		at := r.chain.Segments[i-1].Header.End
		if missing := seg.Header.Start - at; missing > 0 {
			gap := recording.Event{Time: seg.Header.From, Code: recording.Gap, Data: strconv.AppendInt(nil, missing, 10), At: at}
			if err := fn(gap); err != nil {
				return err
			}
		}
	}
	return r.readSegment(ctx, seg, fn)
}

func (r *Reader) readSegment(ctx context.Context, seg recording.Segment, fn func(recording.Event) error) error {
	key, err := r.key(ctx, seg)
	if err != nil {
		return err
	}
	return recording.Read(ctx, r.spool.Objects, r.place, seg, key, func(e recording.Event) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(e)
	})
}

// Began gives when the first event was that is there.
func (r *Reader) Began() time.Time {
	if len(r.chain.Segments) == 0 {
		return time.Time{}
	}
	return r.chain.Segments[0].Header.From
}

// Why says why the beginning is missing; nil if nothing is.
func (r *Reader) Why() error { return r.chain.Why }

// After says what is wrong with what comes after the end; nil if nothing does.
func (r *Reader) After() error { return r.chain.After }

// key gives what opens a segment.
func (r *Reader) key(ctx context.Context, seg recording.Segment) (age.Identity, error) {
	_, kid, _ := recording.SplitRun(seg.Run)
	if id, ok := r.keys[kid]; ok {
		return id, nil
	}
	id, err := image.UnwrapKey(ctx, r.spool.Objects, r.place.Tenant, r.place.Lineage, kid, r.spool.Snapshots.Identities)
	if err != nil {
		return nil, fmt.Errorf("open a recording: %w", err)
	}
	r.keys[kid] = id
	return id, nil
}
