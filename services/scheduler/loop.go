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
	name   schemas.Name
	record statekv.Versioned
	view   session.View
	due    time.Time // when to decide about it
	place  int       // in the queue; -1 if it isn't there
	acting bool      // a swap for it is under way
}

// loop is the state of one run; its goroutine alone touches it.
type loop struct {
	s         *Scheduler
	sessions  map[schemas.Name]*tracked
	strangers []schemas.Name // heard of before any record, the oldest first
	queue     queue
	timer     *time.Timer
	acted     chan statekv.Versioned // the record that was acted on
	pace      pace
	hearing   bool // all that was stored has been heard
	deciding  bool
	bad       int       // messages that were no activity
	badSaid   time.Time // when that was logged last
}

// actorsAtOnce bounds the swaps under way at one time: after an outage the
// overdue ones go out at the pace at which the store takes them.
const actorsAtOnce = 16

// actAgain is when a session is decided about again if acting on its record
// didn't bring a new one.
const actAgain = time.Second

func (s *Scheduler) run(ctx context.Context) error {
	l := &loop{s: s, sessions: map[schemas.Name]*tracked{}, timer: time.NewTimer(time.Hour), acted: make(chan statekv.Versioned), pace: newPace()}
	defer l.timer.Stop()
	acts := newGroup(actorsAtOnce)
	defer acts.wait()
	known := s.known
	var heard chan stream.Heard // nil while the records are read: who is a stranger is known only then
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-s.records:
			l.see(v)
		case <-known:
			known, heard = nil, s.heard
			for len(s.records) > 0 {
				l.see(<-s.records)
			}
		case h := <-heard:
			l.hear(h)
		case fn := <-s.asks:
			fn(l)
		case v := <-l.acted:
			l.done(v)
		case <-l.timer.C: // act takes what is due
		}
		if !l.deciding && l.hearing {
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
	for _, t := range l.sessions {
		t.view.HeardSince = now
		l.schedule(t, now)
	}
}

// strangers bounds how many sessions without a record are remembered: activity
// may come before the record does, but a flood for names that don't exist must
// not fill the memory. The oldest make room.
const strangers = 1000

func (l *loop) track(n schemas.Name) *tracked {
	t, ok := l.sessions[n]
	if !ok {
		t = &tracked{name: n, place: -1}
		l.sessions[n] = t
	}
	return t
}

// stranger makes room for a session that is heard of before its record is seen.
func (l *loop) stranger(n schemas.Name) {
	l.strangers = append(l.strangers, n)
	if len(l.strangers) <= strangers {
		return
	}
	oldest := l.strangers[0]
	l.strangers = l.strangers[1:]
	if t, ok := l.sessions[oldest]; ok && t.record.UID == "" {
		if t.place >= 0 {
			heap.Remove(&l.queue, t.place)
		}
		delete(l.sessions, oldest)
	}
}

func (l *loop) see(v statekv.Versioned) {
	t := l.track(v.Name())
	t.record = v
	t.view.See(v.SessionRecord, time.Now())
	l.pace.see(v.SessionRecord)
	l.schedule(t, time.Now())
}

// done comes back to a session whose record was acted on: at once if it has
// changed since, else in a while, so that what fails is not tried in a circle.
func (l *loop) done(v statekv.Versioned) {
	t := l.track(v.Name())
	t.acting = false
	l.pace.see(t.record.SessionRecord)
	if t.record.Rev == v.Rev {
		l.schedule(t, time.Now().Add(actAgain))
		return
	}
	l.schedule(t, time.Now())
}

func (l *loop) hear(h stream.Heard) {
	switch {
	case h.CaughtUp:
		l.hearing = true
	case h.Gap && l.deciding:
		l.restartGraces()
	case h.Gap:
	case h.Bad != nil:
		l.complain(h.Bad)
	default:
		n := h.Message.Source.Name
		if _, ok := l.sessions[n]; !ok {
			l.stranger(n)
		}
		t := l.track(n)
		p, _ := session.PolicyFor(t.record.Class, t.record.Idle)
		t.view.Hear(h.Message, p)
		l.schedule(t, time.Now())
	}
}

// complain logs what is no activity, now and then: anyone may publish it, as fast
// as he likes.
func (l *loop) complain(err error) {
	l.bad++
	if now := time.Now(); now.Sub(l.badSaid) > time.Minute {
		l.s.Log.Warn("not activity", "err", err, "since_the_last_warning", l.bad)
		l.bad, l.badSaid = 0, now
	}
}

// schedule makes at the one time at which a session is decided about next.
func (l *loop) schedule(t *tracked, at time.Time) {
	t.due = at
	if t.place >= 0 {
		heap.Fix(&l.queue, t.place)
	} else {
		heap.Push(&l.queue, t)
	}
	l.timer.Reset(max(time.Until(l.queue[0].due), 0))
}

// act decides about every session that is due.
func (l *loop) act(ctx context.Context, acts *group) {
	if !l.deciding {
		return
	}
	now := time.Now()
	var due []overdue
	for len(l.queue) > 0 && !l.queue[0].due.After(now) {
		t := heap.Pop(&l.queue).(*tracked)
		if t.acting || t.record.UID == "" {
			continue // done comes back to it, or see
		}
		p, _ := session.PolicyFor(t.record.Class, t.record.Idle)
		d := session.Decide(&t.view, p, now)
		if d.Verdict == session.Leave {
			if !d.Next.IsZero() {
				l.schedule(t, d.Next)
			}
			continue
		}
		if d.Verdict == session.Suspend {
			due = append(due, overdue{t, d})
			continue
		}
		l.carryOut(ctx, acts, t, d)
	}
	due, later := l.pace.room(due)
	for _, o := range due {
		l.carryOut(ctx, acts, o.t, o.d)
	}
	for _, o := range later {
		l.schedule(o.t, now.Add(paceAgain))
	}
	if len(l.queue) > 0 {
		l.timer.Reset(max(time.Until(l.queue[0].due), 0))
	}
}

func (l *loop) carryOut(ctx context.Context, acts *group, t *tracked, d session.Decision) {
	t.acting = true
	record := t.record
	acts.run(func() {
		l.s.carryOut(ctx, record, d)
		send(ctx, l.acted, record)
	})
}

// queue is a heap of sessions, the one that is due first in front; each is in it
// once.
type queue []*tracked

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *queue) Push(x any) {
	t := x.(*tracked)
	t.place = len(*q)
	*q = append(*q, t)
}
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	t.place = -1
	*q = old[:len(old)-1]
	return t
}
