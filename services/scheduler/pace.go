package scheduler

import (
	"container/heap"
	"context"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// suspendsAtOnce bounds the suspends for idleness that one host works on. After an
// outage hundreds may be due in the same moment, and each is frozen until its image is
// durable: they would all be frozen for as long as all of them take. A host that is
// gone holds up its own alone.
const suspendsAtOnce = 8

// suspendsInAll bounds those of all hosts: they share a store, and an image that waits
// for it is a session that stands still.
const suspendsInAll = 256

// stuckAfter is how long a host may be at its suspends without the record of any of them
// changing. Then it most likely is gone: it writes nothing to the store, and takes no
// part of what all hosts may do until it is heard of again.
const stuckAfter = 2 * time.Minute

// stuckLook is how often hosts that are stuck are looked for, while there is no room.
const stuckLook = time.Second

// home is a host as the scheduler sees it.
type home struct {
	seats   []*tracked    // the sessions that take up room on it
	going   int           // its suspends for idleness under way
	waiting waitlist      // those that are due and wait for room
	moved   time.Duration // when one of those under way began, or was heard of, last
	stuck   bool          // they don't count among those of all hosts

	report             schemas.Host  // what it said of itself last
	reported, relieved time.Duration // when it did, and when a session had to make room last
	look               time.Duration // not before that it is looked again whether it is too full
	promises           []promise     // places that are about to be taken
}

// pace says how many suspends there may be.
type pace struct {
	going  int                // on all hosts but those that are stuck
	hungry map[*home]struct{} // the hosts with something that waits
	busy   map[*home]struct{} // the hosts with suspends under way
	looked time.Duration      // for hosts that are stuck
}

func newPace() pace { return pace{hungry: map[*home]struct{}{}, busy: map[*home]struct{}{}} }

func (l *loop) homeOf(h schemas.HostID) *home {
	at := l.homes[h]
	if at == nil {
		at = &home{}
		l.homes[h] = at
	}
	return at
}

// leave takes a session out of what is counted at its host, enter puts it in as its
// record stands now.
func (l *loop) leave(t *tracked) {
	if t.home == nil {
		return
	}
	if t.going {
		l.pace.change(t.home, -1, l.now())
		t.going = false
	}
	if last := len(t.home.seats) - 1; t.seat != nowhere {
		t.home.seats[t.seat] = t.home.seats[last]
		t.home.seats[t.seat].seat = t.seat
		t.home.seats[last] = nil
		t.home.seats = t.home.seats[:last]
		t.seat = nowhere
	}
	t.home, t.waiting = nil, false
}

func (l *loop) enter(t *tracked) {
	state, op := t.view.state(), t.view.op()
	reaping := state == schemas.Suspended && op != nil
	switch state {
	case schemas.Starting, schemas.Running, schemas.Suspending, schemas.Resuming:
	default:
		if !reaping {
			return
		}
	}
	t.home = l.homeOf(t.view.host())
	if t.home.report.Slots > 0 {
		l.suspect(t.home)
	}
	t.seat = int32(len(t.home.seats))
	t.home.seats = append(t.home.seats, t)
	if op != nil && op.Idle && (reaping || state == schemas.Suspending) {
		l.count(t)
	}
}

// count makes a session one of the suspends under way.
func (l *loop) count(t *tracked) {
	if t.going {
		return
	}
	t.going = true
	l.pace.change(t.home, 1, l.now())
}

// change counts suspends of a host that begin, or of which something is heard.
func (p *pace) change(h *home, by int, now time.Duration) {
	if by < 0 && h.stuck { // it isn't gone
		h.stuck = false
		p.going += h.going
	}
	h.going += by
	if !h.stuck {
		p.going += by
		h.moved = now
	}
	if h.going > 0 {
		p.busy[h] = struct{}{}
	} else {
		delete(p.busy, h)
	}
}

// unstick leaves the hosts out of count that nothing was heard of for long.
func (p *pace) unstick(now time.Duration) {
	if now-p.looked < stuckLook {
		return
	}
	p.looked = now
	for h := range p.busy {
		if !h.stuck && now-h.moved >= stuckAfter {
			h.stuck = true
			p.going -= h.going
		}
	}
}

// overdue is a suspend that is due.
type overdue struct {
	t     *tracked
	score float64
	since time.Time // when it was used last
}

// waitlist has the sessions of one host whose suspend is due: those that matter least
// first, and among them those that were used least recently.
type waitlist []overdue

func (w waitlist) Len() int { return len(w) }
func (w waitlist) Less(i, j int) bool {
	if w[i].score != w[j].score {
		return w[i].score < w[j].score
	}
	return w[i].since.Before(w[j].since)
}
func (w waitlist) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waitlist) Push(x any)   { *w = append(*w, x.(overdue)) }
func (w *waitlist) Pop() any {
	old := *w
	o := old[len(old)-1]
	old[len(old)-1] = overdue{}
	*w = old[:len(old)-1]
	return o
}

// overdue puts a session in line. It has lost nothing by that: what is heard until its
// turn counts.
func (l *loop) overdue(t *tracked, v *session.View, p session.Policy) {
	t.waiting = true
	heap.Push(&t.home.waiting, overdue{t, v.Score(p.Score, time.Now()), v.IdleSince()})
	l.pace.hungry[t.home] = struct{}{}
}

// giveUp empties the line.
func (h *home) giveUp() {
	for _, o := range h.waiting {
		o.t.waiting = false
	}
	h.waiting = nil
}

// next is the host whose turn it is: of those with room the one whose first in line
// matters least; nil if there is none.
func (l *loop) next() (at *home) {
	if l.pace.going >= suspendsInAll && len(l.pace.hungry) > 0 {
		l.pace.unstick(l.now())
	}
	if l.pace.going >= suspendsInAll {
		return nil
	}
	for h := range l.pace.hungry {
		if len(h.waiting) == 0 {
			delete(l.pace.hungry, h)
			continue
		}
		if h.going < suspendsAtOnce && (at == nil || h.waiting[0].score < at.waiting[0].score) {
			at = h
		}
	}
	return at
}

// pick takes the session whose turn it is out of its line; nil if there is none, or no
// room.
func (l *loop) pick() *tracked {
	for at := l.next(); at != nil; at = l.next() {
		t := heap.Pop(&at.waiting).(overdue).t
		if t.home == at && t.waiting && !t.acting { // else its record has changed since
			t.waiting = false
			return t
		}
	}
	return nil
}

// admit has the suspends begin for which there is room. Each is decided about again:
// it may have waited long.
func (l *loop) admit(ctx context.Context) {
	for t := l.pick(); t != nil; t = l.pick() {
		v := l.view(t)
		d := session.Decide(&v, l.policy(&v), time.Now())
		if d.Verdict != session.Suspend {
			l.touch(t)
			continue
		}
		l.count(t)
		l.carryOut(ctx, t, d)
	}
}
