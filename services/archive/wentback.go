package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// settle completes what an earlier pass left undone, and finds out whether the log is the one
// that the segments are of.
func (a *Archive) settle(ctx context.Context, now time.Time, is statekv.Extent, dryRun bool, out *Pass) (at place, err error) {
	if at.Head, at.rev, err = a.Heads.Get(ctx); err != nil {
		return at, err
	}
	if own := a.Key.Recipient().String(); at.Key != "" && at.Key != own {
		at.blocked = true
		out.Problems = append(out.Problems, fmt.Sprintf("the log's segments are for the key of %s, which this host hasn't got: copy keys/log.txt from a host that has it", at.Key))
		return at, nil
	}
	if dryRun {
		return at, nil
	}
	before := at.End.Number
	if err := a.follow(ctx, &at); err != nil {
		return at, err
	}
	cut, err := a.cut(ctx, at, before, is)
	if err != nil {
		return at, err
	}
	if cut > 0 {
		f := Fork{Number: at.End.Number, Cut: cut, Log: at.Log, At: now}
		next := at.Head
		next.Forks, next.Log, next.Pending, next.At, next.Top = append(next.Forks[:len(next.Forks):len(next.Forks)], f), is.Created, false, now, 0
		if err := a.swap(ctx, &at, next); err != nil {
			return at, notMoved(err)
		}
		out.Problems = append(out.Problems, f.String())
	} else if at.End.Number != before {
		next := at.Head
		next.Pending = true
		if err := a.swap(ctx, &at, next); err != nil {
			return at, notMoved(err)
		}
	}
	if at.Pending {
		return at, notMoved(a.purgeAgain(ctx, &at, out))
	}
	return at, nil
}

// notMoved has a pass end without an error if another archive is at it.
func notMoved(err error) error {
	if errors.Is(err, ErrMoved) {
		return fmt.Errorf("another archive is at work: %w", err)
	}
	return err
}

// follow finds segments after the head that go on from it: a process ended before it recorded
// them, or the head went back with NATS.
func (a *Archive) follow(ctx context.Context, at *place) error {
	names, _, err := segment.List(ctx, a.Store, at.End.Number)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, _ := segment.NumberOf(name)
		if number != at.End.Number+1 {
			continue // none goes on to it, or another was taken
		}
		h, ref, err := segment.ReadHeader(ctx, a.Store, segment.Ref{Number: number, Name: name}, a.Trusted)
		if err != nil || h.Key != a.Key.Recipient().String() || number > 1 && *h.Previous != at.End {
			continue
		}
		at.End, at.Log, at.Key, at.Top = ref, h.Log, h.Key, max(at.Top, h.Last)
		at.Bytes += h.Size
		if h.Written.After(at.Through) {
			at.Through = h.Written // the policy of then may have been another
		}
	}
	return nil
}

// cut says from which sequence on entries of the segments aren't the log's; 0 if all are. It looks
// at those segments after a number and at the end of the one before them, and at all of all
// segments if these tell that the log went back.
func (a *Archive) cut(ctx context.Context, at place, before uint64, is statekv.Extent) (uint64, error) {
	switch {
	case at.End.Number == 0:
		return 0, nil
	case !at.Log.Equal(is.Created):
		return 1, nil
	}
	chain, err := segment.Walk(ctx, a.Store, at.End, before, a.Known)
	if err != nil {
		return 0, err
	}
	var cut uint64
	if at.Top > is.Last {
		cut = is.Last + 1
	}
	for _, l := range chain {
		if cut == 0 && l.Err == nil {
			if cut, err = a.differs(ctx, at, l.Ref, l.Number > before || at.Pending, is); err != nil {
				return 0, err
			}
		}
	}
	if cut == 0 {
		return 0, nil
	}
	if chain, err = segment.Walk(ctx, a.Store, at.End, 1, a.Known); err != nil {
		return 0, err
	}
	for _, l := range chain {
		if l.Err != nil {
			continue
		}
		c, err := a.differs(ctx, at, l.Ref, true, is)
		if err != nil {
			return 0, err
		}
		if c > 0 {
			cut = min(cut, c)
		}
	}
	return cut, nil
}

// differs gives the lowest sequence of a segment that the log has another entry at. whole says
// that the log may not have purged them, so that all are looked at, not the last alone.
func (a *Archive) differs(ctx context.Context, at place, ref segment.Ref, whole bool, is statekv.Extent) (cut uint64, err error) {
	var last segment.Revision
	compare := func(r segment.Revision) error {
		if r.Seq > is.Last || !at.has(ref.Number, r.Seq) {
			return nil
		}
		e, ok, err := a.Log.EntryAt(ctx, r.Seq)
		if err != nil || !ok || same(segment.Revision(e), r) {
			return err
		}
		if cut == 0 || r.Seq < cut {
			cut = r.Seq
		}
		return nil
	}
	_, err = segment.Read(ctx, a.Store, ref, a.Known, []age.Identity{a.Key}, func(r segment.Revision) error {
		if r.Seq > last.Seq {
			last = r
		}
		if whole {
			return compare(r)
		}
		return nil
	})
	if err == nil && !whole {
		err = compare(last)
	}
	return cut, err
}

// purgeAgain purges what is in the last segment, which an earlier pass may have done in part.
func (a *Archive) purgeAgain(ctx context.Context, at *place, out *Pass) error {
	through, removed := map[schemas.Name]uint64{}, map[schemas.Name]bool{}
	_, err := segment.Read(ctx, a.Store, at.End, a.Known, []age.Identity{a.Key}, func(r segment.Revision) error {
		v, err := statekv.Entry(r).Record()
		if err != nil {
			return err
		}
		through[v.Name()], removed[v.Name()] = r.Seq, over(v.SessionRecord)
		return nil
	})
	if err != nil {
		return err
	}
	for n, seq := range through {
		if err := a.purge(ctx, purge{name: n, through: seq, removed: removed[n]}, out); err != nil {
			return err
		}
	}
	return a.purged(ctx, at)
}
