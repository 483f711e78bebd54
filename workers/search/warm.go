package search

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// What warm takes: the part of the memory that the searcher has, and the part of a processor's time, each one of so many.
const (
	warmMemory = 2
	warmTime   = 4
)

// ended is a session of which no more is recorded.
type ended struct {
	name schemas.Name
	uid  schemas.UID
	at   time.Time
}

// warm sums up the sessions of this host of which no more is recorded, so that a search doesn't wait for that: the ones that changed last first, one at a
// time, until their summaries take half of the memory.
func (s *Searcher) warm(ctx context.Context) {
	all, err := s.ended(ctx)
	if err != nil {
		s.Log.Debug("could not list what is to be searched", "err", err)
		return
	}
	for _, e := range all {
		if s.cache.has(e.uid) {
			continue
		}
		if s.cache.takes() > s.cache.most/warmMemory {
			return
		}
		began := time.Now()
		if err := s.update(ctx, e.name, false); err != nil && !errors.Is(err, statekv.ErrNoSession) {
			s.Log.Debug("could not sum up a recording", "session", e.name.String(), "err", err)
		}
		s.cache.rest(e.uid)
		select {
		case <-time.After((warmTime - 1) * time.Since(began)):
		case <-ctx.Done():
			return
		}
	}
}

// ended lists the sessions of this host of which no more is recorded, the one that changed last first, and no more of them than there may be room for.
func (s *Searcher) ended(ctx context.Context) (all []ended, err error) {
	most := int(s.cache.most / warmMemory / entrySize)
	bound := func() {
		slices.SortFunc(all, func(a, b ended) int { return b.at.Compare(a.at) })
		all = all[:min(len(all), most)]
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = s.Records.Watch(ctx, func(v statekv.Versioned) {
		n := v.Name()
		if _, template := n.Template(); template || v.Host != s.Recordings.Host || v.State == schemas.Deleted || live(v.SessionRecord) {
			return
		}
		if all = append(all, ended{n, v.UID, v.Stored}); len(all) > 2*most {
			bound()
		}
	}, stop)
	bound()
	return all, err
}
