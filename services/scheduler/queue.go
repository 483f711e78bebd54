package scheduler

import (
	"container/heap"
	"time"
)

// queue has the sessions that are to be decided about at a known time, the first in
// front; each is in it once. A session that is used again and again stays where it is:
// when its time comes it is found not to be idle, and goes back to the end.
type queue []entry

type entry struct {
	at time.Duration // since the loop began
	t  *tracked
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].t.place, q[j].t.place = int32(i), int32(j)
}
func (q *queue) Push(x any) {
	e := x.(entry)
	e.t.place = int32(len(*q))
	*q = append(*q, e)
}
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	e.t.place = nowhere
	old[len(old)-1] = entry{}
	*q = old[:len(old)-1]
	return e
}

// put has a session decided about at a time, in place of the one that was known.
func (q *queue) put(t *tracked, at time.Duration) {
	if t.place == nowhere {
		heap.Push(q, entry{at, t})
		return
	}
	(*q)[t.place].at = at
	heap.Fix(q, int(t.place))
}

func (q *queue) drop(t *tracked) {
	if t.place != nowhere {
		heap.Remove(q, int(t.place))
	}
}

// due takes the first session whose time has come, nil if there is none.
func (q *queue) due(now time.Duration) *tracked {
	if len(*q) == 0 || (*q)[0].at > now {
		return nil
	}
	return heap.Pop(q).(entry).t
}

// at is when a session is decided about next; ok is false if that isn't known.
func (q queue) at(t *tracked) (at time.Duration, ok bool) {
	if t.place == nowhere {
		return 0, false
	}
	return q[t.place].at, true
}

// clear forgets all of them.
func (q *queue) clear() {
	for _, e := range *q {
		e.t.place = nowhere
	}
	*q = nil
}
