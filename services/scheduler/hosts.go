package scheduler

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

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

// host is a host as the scheduler sees it.
type host struct {
	slots   []*tracked    // the sessions that take a slot on it
	coming  int           // the sessions that move there
	going   int           // its suspends for idleness under way
	waiting waitlist      // those that are due and wait until they may begin
	moved   time.Duration // when one of those under way began, or was heard of, last
	stuck   bool          // they don't count among those of all hosts

	report          schemas.Host  // what it announced last
	reported, eased time.Duration // when it did, and when a session was evicted from it last
	look            time.Duration // not before that it is looked again whether it is too full
	reserved        []reservation
}

// leaving counts the sessions that are on their way out.
func leaving(slots []*tracked) (n int) {
	for _, t := range slots {
		if t.outbound() {
			n++
		}
	}
	return n
}

// giveUp empties the list of suspends that wait.
func (h *host) giveUp() {
	for _, o := range h.waiting {
		o.t.waiting = false
	}
	h.waiting = nil
}

// hosts counts what each host has, and what it may begin.
type hosts struct {
	clock
	byName  map[schemas.HostID]*host
	pace    pace
	crowded map[*host]time.Time // the hosts that may be too full, and since when
	moving  map[*tracked]*host  // the sessions that move, and where to
	read    uint64              // the revision of the last record that was read
	// slotsOf gives how many slots a host has that announced own, and what says so if it isn't the host.
	slotsOf func(own int) (slots int, by string)
}

func newHosts(c clock, slotsOf func(own int) (int, string)) *hosts {
	return &hosts{clock: c, slotsOf: slotsOf, byName: map[schemas.HostID]*host{}, pace: newPace(), crowded: map[*host]time.Time{}, moving: map[*tracked]*host{}}
}

func (hs *hosts) of(name schemas.HostID) *host {
	h := hs.byName[name]
	if h == nil {
		h = &host{}
		hs.byName[name] = h
	}
	return h
}

// leave takes a session out of what is counted at its host.
func (hs *hosts) leave(t *tracked) {
	if to := hs.moving[t]; to != nil {
		to.coming--
		delete(hs.moving, t)
	}
	h := t.host
	if h == nil {
		return
	}
	if t.going {
		hs.pace.change(h, -1, hs.now())
		t.going = false
	}
	if last := len(h.slots) - 1; t.slot != nowhere {
		h.slots[t.slot] = h.slots[last]
		h.slots[t.slot].slot = t.slot
		h.slots[last] = nil
		h.slots = h.slots[:last]
		t.slot = nowhere
	}
	t.host, t.waiting = nil, false
}

// enter counts a session at its host, as its record stands now.
func (hs *hosts) enter(t *tracked) {
	state, op := t.view.state(), t.view.op()
	reaping := state == schemas.Suspended && op != nil
	switch state {
	case schemas.Starting, schemas.Running, schemas.Suspending, schemas.Resuming:
	default:
		if !reaping {
			return
		}
	}
	if to := movingTo(t); to != "" {
		hs.moving[t] = hs.of(to)
		hs.moving[t].coming++
	}
	if t.view.host() == "" {
		return // it waits for one
	}
	t.host = hs.of(t.view.host())
	if hs.slots(t.host) > 0 {
		hs.suspect(t.host)
	}
	t.slot = int32(len(t.host.slots))
	t.host.slots = append(t.host.slots, t)
	if op != nil && op.Idle && (reaping || state == schemas.Suspending) {
		hs.count(t)
	}
}

// movingTo is the host that a session is on its way to; "" if there is none but its own.
func movingTo(t *tracked) schemas.HostID {
	op := t.view.op()
	if op == nil || op.Move == nil { // as of nearly all
		return ""
	}
	return schemas.SessionRecord{State: t.view.state(), Host: t.view.host(), Op: op}.MovingTo()
}

// count makes a session one of the suspends under way.
func (hs *hosts) count(t *tracked) {
	if t.going {
		return
	}
	t.going = true
	hs.pace.change(t.host, 1, hs.now())
}

// announced takes in what a host says of itself.
func (hs *hosts) announced(r schemas.Host) {
	h := hs.of(r.Host)
	h.report, h.reported = r, hs.now()
	hs.suspect(h)
}

// slots gives how many sessions a host has room for; no limit if 0. Of one whose report wasn't read yet none is
// known: its own goes before a default.
func (hs *hosts) slots(h *host) int {
	if h.report.Host == "" {
		return 0
	}
	n, _ := hs.slotsOf(h.report.Slots)
	return n
}

// namedSlots is the number for a reason, with what says so: the log has it then.
func (hs *hosts) namedSlots(h *host) string {
	n, by := hs.slotsOf(h.report.Slots)
	if by == "" {
		return fmt.Sprintf("%d slots", n)
	}
	return fmt.Sprintf("%d slots (%s)", n, by)
}

// suspect has it looked whether a host is too full.
func (hs *hosts) suspect(h *host) {
	if _, ok := hs.crowded[h]; !ok {
		hs.crowded[h] = time.Now()
	}
}

// wait lists a session whose suspend is due. It loses nothing by that: what is heard until
// its turn counts.
func (hs *hosts) wait(t *tracked, score float64, used time.Time) {
	t.waiting = true
	heap.Push(&t.host.waiting, overdue{t, score, used})
	hs.pace.hungry[t.host] = struct{}{}
}

// next is the host whose turn it is: of those that may begin a suspend the one whose first
// on the list matters least; nil if there is none.
func (hs *hosts) next() (at *host) {
	if hs.pace.going >= suspendsInAll && len(hs.pace.hungry) > 0 {
		hs.pace.unstick(hs.now())
	}
	if hs.pace.going >= suspendsInAll {
		return nil
	}
	for h := range hs.pace.hungry {
		if len(h.waiting) == 0 {
			delete(hs.pace.hungry, h)
			continue
		}
		if h.going < suspendsAtOnce && (at == nil || h.waiting[0].score < at.waiting[0].score) {
			at = h
		}
	}
	return at
}

// pick takes the session whose turn it is off its list; nil if there is none, or no host
// may begin one.
func (hs *hosts) pick() *tracked {
	for h := hs.next(); h != nil; h = hs.next() {
		t := heap.Pop(&h.waiting).(overdue).t
		if t.host == h && t.waiting && !t.acting { // else its record has changed since
			t.waiting = false
			return t
		}
	}
	return nil
}

// giveUp empties the lists of all hosts: another scheduler decides now.
func (hs *hosts) giveUp() {
	for _, h := range hs.byName {
		h.giveUp()
	}
}

// reachable leaves out the sessions of hosts that are most likely gone: no suspend of these
// would end.
func (hs *hosts) reachable(running []*tracked) []*tracked {
	hs.pace.unstick(hs.now())
	return slices.DeleteFunc(slices.Clone(running), func(t *tracked) bool { return t.host == nil || t.host.stuck })
}

// pace says how many suspends there may be.
type pace struct {
	going  int                // on all hosts except those that are stuck
	hungry map[*host]struct{} // the hosts with something that waits
	busy   map[*host]struct{} // the hosts with suspends under way
	looked time.Duration      // for hosts that are stuck
}

func newPace() pace { return pace{hungry: map[*host]struct{}{}, busy: map[*host]struct{}{}} }

// change counts suspends of a host that begin, or of which something is heard.
func (p *pace) change(h *host, by int, now time.Duration) {
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
