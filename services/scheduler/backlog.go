package scheduler

import (
	"context"
	"time"
)

// Backlog is how much a scheduler has to do.
type Backlog struct {
	Sessions int // that are known, those without a record among them
	Fresh    int // that are to be decided about at once
	Timed    int // that are to be decided about at a known time
	Waiting  int // whose suspend is due, and waits until their host may begin one more
	Going    int // suspends for idleness under way
	Waking   int // to be resumed, and wait until their tenant's quota has room
	// Behind is how long ago everything was heard that the stream had.
	Behind time.Duration
}

// Backlog says how much there is to do now.
func (s *Scheduler) Backlog(ctx context.Context) (b Backlog, err error) {
	err = s.ask(ctx, func(l *loop) {
		b = Backlog{
			Sessions: len(l.table.sessions), Fresh: len(l.agenda.fresh), Timed: len(l.agenda.queue), Behind: l.lag.behind(),
			Waking: l.quotas.waiting(),
		}
		for _, h := range l.hosts.byName {
			b.Waiting += len(h.waiting)
			b.Going += h.going
		}
	})
	return b, err
}
