package turns

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/diapause/diapause/schemas"
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
	of      schemas.UID
	granted chan struct{} // closed when it may go on
}

// NewQueue gives a queue in which nothing waits.
func NewQueue(l Limits) *Queue { return &Queue{limits: l} }

// Take waits until an operation of a session may go on, or ctx ends, whose cause it returns
// then. If it has to wait, it calls queued with its place; nil isn't called. The operation
// calls done, once or more often, when it is over.
func (q *Queue) Take(ctx context.Context, of schemas.UID, r Request, queued func(schemas.QueuePlace)) (done func(), err error) {
	t := &turn{Request: r, of: of, granted: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.grant()
	place, waits := q.places()[t]
	q.mu.Unlock()
	if waits && queued != nil {
		queued(place)
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

// Places says of each session with an operation that waits where that stands.
func (q *Queue) Places() map[schemas.UID]schemas.QueuePlace {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[schemas.UID]schemas.QueuePlace, len(q.waiting))
	for t, place := range q.places() {
		out[t.of] = place
	}
	return out
}

// places says where those stand that wait. Callers hold mu.
func (q *Queue) places() map[*turn]schemas.QueuePlace {
	out := make(map[*turn]schemas.QueuePlace, len(q.waiting))
	if len(q.waiting) == 0 {
		return out
	}
	order := slices.Clone(q.waiting)
	slices.SortStableFunc(order, func(a, b *turn) int { return cmp.Compare(a.Class, b.Class) })
	limit := q.limits.held(requests(q.going), order[0].Request)
	for i, t := range order {
		out[t] = schemas.QueuePlace{Place: i + 1, Of: len(order), Limit: limit}
	}
	return out
}

func requests(all []*turn) []Request {
	out := make([]Request, len(all))
	for i, t := range all {
		out[i] = t.Request
	}
	return out
}
