package scheduler

import "context"

// Depth is how much a scheduler has in hand.
type Depth struct {
	Sessions int // that are known, strangers among them
	Fresh    int // that are to be decided about at once
	Timed    int // that are to be decided about at a known time
	Waiting  int // whose suspend is due, and waits for room on their host
	Going    int // suspends for idleness under way
}

// Depth says how much there is in hand now.
func (s *Scheduler) Depth(ctx context.Context) (d Depth, err error) {
	err = s.ask(ctx, func(l *loop) {
		d = Depth{Sessions: len(l.sessions), Fresh: len(l.fresh), Timed: len(l.queue)}
		for _, h := range l.homes {
			d.Waiting += len(h.waiting)
			d.Going += h.going
		}
	})
	return d, err
}
