package scheduler

import (
	"container/heap"
	"context"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// tracked is what the loop knows of one session.
type tracked struct {
	record statekv.Versioned
	view   session.View
	due    time.Time // its entry in the queue; older entries are void
	acting bool      // a swap for it is under way
}

// loop is the state of one run; its goroutine alone touches it.
type loop struct {
	s        *Scheduler
	sessions map[schemas.Name]*tracked
	recorded int // of sessions, those that have a record
	queue    queue
	timer    *time.Timer
	acted    chan schemas.Name
	hearing  bool // all that was stored has been heard
	deciding bool
}

// actorsAtOnce bounds the swaps under way at one time: after an outage the
// overdue ones go out at the pace at which the store takes them.
const actorsAtOnce = 16

func (s *Scheduler) run(ctx context.Context) error {
	l := &loop{s: s, sessions: map[schemas.Name]*tracked{}, timer: time.NewTimer(time.Hour), acted: make(chan schemas.Name)}
	defer l.timer.Stop()
	acts := newGroup(actorsAtOnce)
	defer acts.wait()
	known := s.known
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-s.records:
			l.see(v)
		case <-known:
			known = nil
		case h := <-s.heard:
			l.hear(h)
		case fn := <-s.asks:
			fn(l)
		case n := <-l.acted:
			l.sessions[n].acting = false
			l.look(n)
		case <-l.timer.C: // act takes what is due
		}
		if !l.deciding && l.hearing && known == nil && len(s.records) == 0 {
			l.begin()
		}
		l.act(ctx, acts)
	}
}

// begin starts deciding. Every grace starts anew: silence that nobody could
// break is not idleness.
func (l *loop) begin() {
	l.deciding = true
	l.restartGraces()
	close(l.s.ready)
}

func (l *loop) restartGraces() {
	now := time.Now()
	for n, t := range l.sessions {
		t.view.HeardSince = now
		l.look(n)
	}
}

// strangers bounds how many sessions without a record are remembered: activity
// may come before the record does, but a flood for names that don't exist must
// not fill the memory.
const strangers = 10_000

func (l *loop) track(n schemas.Name) *tracked {
	t, ok := l.sessions[n]
	if !ok {
		t = &tracked{}
		l.sessions[n] = t
	}
	return t
}

func (l *loop) see(v statekv.Versioned) {
	t := l.track(v.Name())
	if t.record.UID == "" {
		l.recorded++
	}
	t.record = v
	t.view.See(v.SessionRecord, time.Now())
	l.look(v.Name())
}

func (l *loop) hear(h stream.Heard) {
	switch {
	case h.CaughtUp:
		l.hearing = true
	case h.Gap && l.deciding:
		l.restartGraces()
	case h.Gap:
	case h.Bad != nil:
		l.s.Log.Warn("not activity", "err", h.Bad)
	default:
		n := h.Message.Source.Name
		if _, ok := l.sessions[n]; !ok && len(l.sessions)-l.recorded >= strangers {
			return
		}
		t := l.track(n)
		p, _ := session.PolicyFor(t.record.Class, t.record.Idle)
		t.view.Hear(h.Message, p)
		l.look(n)
	}
}

// look puts a session first in the queue.
func (l *loop) look(n schemas.Name) { l.schedule(n, time.Now()) }

func (l *loop) schedule(n schemas.Name, at time.Time) {
	l.sessions[n].due = at
	heap.Push(&l.queue, entry{n, at})
	l.timer.Reset(time.Until(l.queue[0].at))
}

// act decides about every session that is due.
func (l *loop) act(ctx context.Context, acts *group) {
	if !l.deciding {
		return
	}
	now := time.Now()
	for len(l.queue) > 0 && !l.queue[0].at.After(now) {
		e := heap.Pop(&l.queue).(entry)
		t := l.sessions[e.name]
		if !t.due.Equal(e.at) || t.acting || t.record.UID == "" {
			continue
		}
		p, _ := session.PolicyFor(t.record.Class, t.record.Idle)
		d := session.Decide(&t.view, p, now)
		if d.Verdict == session.Leave {
			if !d.Next.IsZero() {
				l.schedule(e.name, d.Next)
			}
			continue
		}
		t.acting = true
		record := t.record
		acts.run(func() {
			l.s.carryOut(ctx, record, d)
			send(ctx, l.acted, record.Name())
		})
	}
	if len(l.queue) > 0 {
		l.timer.Reset(max(time.Until(l.queue[0].at), 0))
	}
}

// entry is one appointment; queue is a heap of them, soonest first.
type entry struct {
	name schemas.Name
	at   time.Time
}

type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(entry)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
