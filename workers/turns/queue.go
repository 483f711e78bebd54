package turns

import (
	"context"
	"slices"
	"sync"
)

// Queue hands out turns. Its methods may be called from several goroutines.
type Queue struct {
	limits Limits

	mu      sync.Mutex
	going   []*turn
	waiting []*turn // in the order of arrival
}

// turn is one operation in a queue.
type turn struct {
	Request
	granted chan struct{} // closed when it may go on
}

// NewQueue gives a queue in which nothing waits.
func NewQueue(l Limits) *Queue { return &Queue{limits: l} }

// Take waits until an operation may go on, or ctx ends, whose cause it returns then. If it
// has to wait, it calls queued with the number of those before it; nil isn't called. The
// operation calls done, once or more often, when it is over.
func (q *Queue) Take(ctx context.Context, r Request, queued func(ahead int)) (done func(), err error) {
	t := &turn{Request: r, granted: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.grant()
	place := slices.Index(q.waiting, t)
	before := 0
	if place >= 0 {
		before = ahead(requests(q.waiting), place)
	}
	q.mu.Unlock()
	if place >= 0 && queued != nil {
		queued(before)
	}
	select {
	case <-t.granted:
	case <-ctx.Done():
		q.leave(t) // also if it was granted just now
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { q.leave(t) }), nil
}

// leave takes an operation out, which waits or goes on.
func (q *Queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := func(o *turn) bool { return o == t }
	q.waiting = slices.DeleteFunc(q.waiting, is)
	q.going = slices.DeleteFunc(q.going, is)
	q.grant()
}

// grant lets go on what may. Callers hold mu.
func (q *Queue) grant() {
	for {
		i := Next(q.limits, requests(q.going), requests(q.waiting))
		if i < 0 {
			return
		}
		t := q.waiting[i]
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.going = append(q.going, t)
		close(t.granted)
	}
}

// Counts says how many operations go on and how many wait.
func (q *Queue) Counts() (going, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.going), len(q.waiting)
}

func requests(all []*turn) []Request {
	out := make([]Request, len(all))
	for i, t := range all {
		out[i] = t.Request
	}
	return out
}
