package scheduler

import "time"

// agenda has the sessions that are to be decided about.
type agenda struct {
	clock
	open    bool       // sessions are decided about here; else another scheduler does that
	fresh   []*tracked // now
	queue   queue      // at a known time
	backlog []*tracked // when fewer wakes are under way
	ready   chan struct{}
}

func newAgenda(c clock) *agenda {
	a := &agenda{clock: c, ready: make(chan struct{})}
	close(a.ready)
	return a
}

// touch has a session decided about now.
func (a *agenda) touch(t *tracked) {
	if !a.open || t.fresh {
		return
	}
	a.queue.drop(t)
	t.fresh = true
	a.fresh = append(a.fresh, t)
}

// later has a session decided about after a while.
func (a *agenda) later(t *tracked, d time.Duration) { a.queue.put(t, a.now()+d) }

// at has a session decided about at a time.
func (a *agenda) at(t *tracked, at time.Time) { a.queue.put(t, at.Sub(a.base)) }

// postpone has a session decided about when fewer wakes are under way.
func (a *agenda) postpone(t *tracked) {
	t.fresh = true
	a.backlog = append(a.backlog, t)
}

// next takes the session that is to be decided about next, nil if there is none: those
// whose time had come by now first.
func (a *agenda) next(now time.Duration) *tracked {
	if t := a.queue.due(now); t != nil {
		return t
	}
	if len(a.fresh) == 0 {
		a.fresh = nil // after a start it was large
		return nil
	}
	t := a.fresh[len(a.fresh)-1]
	a.fresh = a.fresh[:len(a.fresh)-1]
	t.fresh = false
	return t
}

// resume has so many of the backlog decided about as may be woken at once: those that
// needn't be woken any more take nothing of that.
func (a *agenda) resume(most int) {
	n := min(max(most-len(a.fresh), 0), len(a.backlog))
	a.fresh, a.backlog = append(a.fresh, a.backlog[:n]...), a.backlog[n:]
}

// clear forgets what was to be decided.
func (a *agenda) clear() {
	for _, t := range append(a.fresh, a.backlog...) {
		t.fresh = false
	}
	a.fresh, a.backlog = nil, nil
	a.queue.clear()
}

// arm sets the timer for the first session that is due, and for a time before that if
// something else is to be looked at (recheck). It gives a channel that is ready if there is
// something to do already.
func (a *agenda) arm(timer *time.Timer, recheck bool) <-chan struct{} {
	switch {
	case len(a.fresh) > 0:
		return a.ready
	case recheck && (len(a.queue) == 0 || a.queue[0].at > a.now()+recheckEvery):
		timer.Reset(recheckEvery)
	case len(a.queue) > 0:
		timer.Reset(max(a.queue[0].at-a.now(), 0))
	}
	return nil
}

// recheckEvery is how often hosts that are too full, and tenants whose sessions wait, are
// looked at again.
const recheckEvery = time.Second
