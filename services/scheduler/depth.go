package scheduler

import (
	"context"
	"time"
)

// Depth is how much a scheduler has in hand.
type Depth struct {
	Sessions int // that are known, strangers among them
	Fresh    int // that are to be decided about at once
	Timed    int // that are to be decided about at a known time
	Waiting  int // whose suspend is due, and waits for room on their host
	Going    int // suspends for idleness under way
	Waking   int // to be resumed, and wait for room within their tenant's quota
	// Behind is how long ago all was heard that the stream had.
	Behind time.Duration
}

// Depth says how much there is in hand now.
func (s *Scheduler) Depth(ctx context.Context) (d Depth, err error) {
	err = s.ask(ctx, func(l *loop) {
		d = Depth{Sessions: len(l.sessions), Fresh: len(l.fresh), Timed: len(l.queue), Behind: l.behind()}
		for tenant := range l.lines {
			d.Waking += len(l.tenancies[tenant].inLine)
		}
		for _, h := range l.homes {
			d.Waiting += len(h.waiting)
			d.Going += h.going
		}
	})
	return d, err
}
