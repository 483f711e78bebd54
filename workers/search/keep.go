package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/search/index"
)

// errOther: an index is of something that isn't a part of the recording any more, as the session was taken back to a snapshot.
var errOther = errors.New("the index is of another recording")

// errRedacted: an index is of a recording as it was before something was redacted.
var errRedacted = errors.New("the recording was redacted since it was indexed")

// refresh brings an entry, which is locked, up to what is stored; with seal up to now. Of one with a summary the index may stay shut.
func (s *Searcher) refresh(ctx context.Context, e *entry, r *schemas.SessionRecord, seal bool) error {
	stale := s.cache.wasTouched(e.uid)
	if !stale && (e.x != nil || e.summary != nil) && r.Host != s.Recordings.Host { // another host redacts it
		redacted, err := e.source.Redacted(ctx)
		if err != nil {
			return err
		}
		stale = redacted != e.redacted
	}
	if (e.x != nil || e.empty || e.summary != nil) && e.version == r.Version && !live(*r) && !stale {
		return nil
	}
	if seal && live(*r) {
		s.Seal(ctx, *r)
	}
	return e.catchUp(ctx, s.Recordings, r)
}

// opened has an entry, which is locked and was refreshed, have its index, unless nothing was recorded.
func (s *Searcher) opened(ctx context.Context, e *entry, r *schemas.SessionRecord) error {
	if e.x != nil || e.empty {
		return nil
	}
	if e.summary != nil {
		redacted := e.redacted
		if err := e.open(ctx); err != nil {
			return err
		}
		if of := e.x.Covers(); of != nil && *of == e.covers && e.redacted == redacted {
			return nil
		}
	}
	return e.catchUp(ctx, s.Recordings, r)
}

// catchUp goes on with the index of an entry up to what is stored.
func (e *entry) catchUp(ctx context.Context, of *recordings.Spool, r *schemas.SessionRecord) error {
	e.summary, e.record, e.version = nil, nil, 0 // after an error it is of no version
	if e.source == nil {
		e.source = of.Source(*r)
	}
	e.source, e.empty = e.source.With(*r), false
	end, err := e.source.End(ctx)
	if err != nil {
		return err
	}
	if end == nil {
		e.close()
		e.empty, e.version, e.record = true, r.Version, r
		return nil
	}
	if e.x == nil {
		if err := e.open(ctx); err != nil {
			return err
		}
	}
	err = e.follow(ctx, *end)
	if errors.Is(err, errOther) || errors.Is(err, errRedacted) {
		if errors.Is(err, errRedacted) { // what is stored has the name of the one that is to come
			if err := e.source.DropIndex(ctx); err != nil {
				return err
			}
		}
		e.close()
		if e.x, err = index.New(); err == nil {
			err = e.follow(ctx, *end)
		}
	}
	if err != nil {
		return err
	}
	return e.settle(r)
}

// settle notes that an index is of all that is stored. If no more comes, it is summed up.
func (e *entry) settle(r *schemas.SessionRecord) (err error) {
	e.version, e.record = r.Version, r
	if of := e.x.Covers(); of != nil && !live(*r) {
		e.covers = *of
		e.summary, err = e.x.Summary()
		e.x.Rest()
	}
	return err
}

// live reports whether more may be recorded of a session as it is.
func live(r schemas.SessionRecord) bool {
	return r.State == schemas.Running || r.State == schemas.Suspending || r.State == schemas.Starting || r.State == schemas.Resuming
}

// open opens the index that is stored, or begins one. One that can't be opened is made again.
func (e *entry) open(ctx context.Context) error {
	data, redacted, err := e.source.Index(ctx)
	if err != nil {
		return err
	}
	if data != nil {
		if e.x, err = index.Open(data); err == nil {
			e.kept, e.redacted = e.x.Read(), redacted
			return nil
		}
	}
	e.kept = 0
	e.x, err = index.New()
	return err
}

// follow goes on with an index up to a segment.
func (e *entry) follow(ctx context.Context, end recording.Ref) error {
	r, err := e.source.Upto(ctx, end, e.x.At()-1)
	if err != nil {
		return err
	}
	switch {
	case e.x.Covers() == nil:
		e.redacted = r.Redacted()
	case e.redacted != r.Redacted():
		return errRedacted
	}
	all := r.Segments()
	next, ok := after(all, e.x.Covers())
	if !ok {
		return errOther
	}
	e.unlisted = e.unlisted || len(e.x.Commands()) == 0
	for _, seg := range all[next:] {
		e.unlisted = e.unlisted || seg.Header.List != nil
		e.x.Segment(seg)
		if seg.Header.End <= e.x.Seen() {
			continue
		}
		err := r.Segment(ctx, seg, func(ev recording.Event) error {
			e.x.Event(ev)
			return nil
		})
		if err != nil && !lost(err) {
			return err
		}
	}
	if e.unlisted {
		if err := e.list(ctx, end); err != nil {
			return err
		}
		e.unlisted = false
	}
	return e.x.Err()
}

// lost reports whether a part of a recording never can be read.
func lost(err error) bool {
	return errors.Is(err, recording.ErrCorrupt) || errors.Is(err, recording.ErrForged) || errors.Is(err, objectstore.ErrNotFound)
}

// after gives the first of some segments that has something beyond one that was read.
func after(all []recording.Segment, covers *recording.Ref) (next int, ok bool) {
	if covers == nil || len(all) == 0 {
		return 0, covers == nil
	}
	same := func(r *recording.Ref) bool {
		return r != nil && r.Run == covers.Run && r.Number == covers.Number && r.Digest == covers.Digest
	}
	for i, seg := range all {
		if same(&seg.Ref) {
			return i, true
		}
		if same(seg.Header.Previous) {
			return i, true
		}
	}
	return 0, false
}

// errEnough: no more is wanted.
var errEnough = errors.New("enough")

// list adds the commands that came since.
func (e *entry) list(ctx context.Context, end recording.Ref) error {
	known := e.x.Known()
	var fresh []schemas.TypedCommand
	typed, err := e.source.Commands(ctx, end)
	if err != nil {
		return err
	}
	err = typed.Each(ctx, func(c schemas.TypedCommand) error {
		if c.Number < known || len(fresh) == index.MaxCommands {
			return errEnough
		}
		fresh = append(fresh, c)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	e.x.Add(fresh)
	return nil
}

// An index is stored when so much output came since, or this part of all. One of less than keepLeast isn't: the recording is read as fast.
const (
	keepLeast = 64 << 10
	keepAfter = 256 << 10
	keepPart  = 4
)

// due reports whether an index is to be stored.
func (e *entry) due(r schemas.SessionRecord) bool {
	if e.x == nil || e.x.Covers() == nil || e.x.Read() < keepLeast {
		return false
	}
	fresh := e.x.Read() - e.kept
	return fresh >= max(keepAfter, e.kept/keepPart) || fresh > 0 && !live(r)
}

// keep stores an index. The record of a session says that it is deleted before its objects are: what was stored after that goes at once.
// So does one of what was redacted meanwhile.
func (s *Searcher) keep(ctx context.Context, e *entry, n schemas.Name) error {
	data, err := e.x.Encode()
	if err != nil {
		return err
	}
	if err := e.source.PutIndex(ctx, *e.x.Covers(), e.redacted, data); err != nil {
		return err
	}
	e.kept = e.x.Read()
	rec, err := s.Records.Get(ctx, n)
	if err == nil && rec.UID == e.uid && rec.State != schemas.Deleted {
		redacted, err := e.source.Redacted(ctx)
		if err != nil || redacted == e.redacted {
			return err
		}
	}
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return err
	}
	return e.source.DropIndex(ctx)
}

// Touch says that more was recorded of a session.
func (s *Searcher) Touch(n schemas.Name, uid schemas.UID) {
	s.cache.touch(uid)
	s.mu.Lock()
	s.due[n] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Forget drops what is in memory of a session.
func (s *Searcher) Forget(uid schemas.UID) { s.cache.forget(uid) }

// gather is how long more is waited for before indexes go on. keepWait bounds that for one session.
const (
	gather   = 15 * time.Second
	keepWait = 5 * time.Minute
)

// Serve sums up what was recorded before, and goes on with the indexes of sessions of which more is recorded, and stores them, until ctx ends. Once
// it has summed up it does nothing while nothing is recorded.
func (s *Searcher) Serve(ctx context.Context) error {
	var g sync.WaitGroup
	defer g.Wait()
	g.Go(func() { s.warm(ctx) })
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(s.gather):
		case <-ctx.Done():
			return nil
		}
		s.mu.Lock()
		due := s.due
		s.due = map[schemas.Name]bool{}
		s.mu.Unlock()
		for n := range due {
			if err := s.update(ctx, n, false); err != nil && ctx.Err() == nil && !errors.Is(err, statekv.ErrNoSession) {
				s.Log.Debug("could not index a recording", "session", n.String(), "err", err)
			}
		}
	}
}

// update goes on with the index of a session, and stores it if enough came. again makes it from the recording alone, and stores it.
func (s *Searcher) update(ctx context.Context, n schemas.Name, again bool) error {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	rec, err := s.Records.Get(ctx, n)
	if err != nil || rec.State == schemas.Deleted {
		return err
	}
	e := s.cache.lock(rec.UID)
	defer s.cache.unlock(e)
	if again {
		e.close()
		e.source = s.Recordings.Source(rec.SessionRecord)
		if err := e.source.DropIndex(ctx); err != nil {
			return err
		}
	}
	if err = s.refresh(ctx, e, &rec.SessionRecord, false); err == nil {
		err = s.opened(ctx, e, &rec.SessionRecord)
	}
	if err == nil && e.due(rec.SessionRecord) {
		err = s.shorten(ctx, e, &rec.SessionRecord)
	}
	if err == nil && (e.due(rec.SessionRecord) || again && e.x != nil && e.x.Covers() != nil) {
		err = s.keep(ctx, e, n)
	}
	if e.x != nil && !live(rec.SessionRecord) {
		e.x.Rest()
	}
	return err
}

// shorten makes an index again if much of it is of output that was deleted for room: its words are to go, too.
func (s *Searcher) shorten(ctx context.Context, e *entry, r *schemas.SessionRecord) error {
	oldest, err := e.source.Oldest(ctx)
	if err != nil || oldest == nil || !e.x.Gone(*oldest) {
		return err
	}
	if err := e.source.DropIndex(ctx); err != nil {
		return err
	}
	e.close()
	return s.refresh(ctx, e, r, false)
}

// Rebuild makes the index of a session again.
func (s *Searcher) Rebuild(ctx context.Context, n schemas.Name) error {
	if err := s.update(ctx, n, true); err != nil {
		return fmt.Errorf("index session %s again: %w", n, cmp.Or(ctx.Err(), err))
	}
	return nil
}
