package scheduler

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Watermarks are how full a host may be, each between 0 and 1; 0 is no limit.
type Watermarks struct {
	Sessions float64 // of its slots
	Memory   float64 // in use
	Pressure float64 // of the time, some task waits for memory
}

// DefaultWatermarks gives 8 of 10 slots, nine tenths of the memory, and a fifth of the time.
func DefaultWatermarks() Watermarks { return Watermarks{Sessions: 0.8, Memory: 0.9, Pressure: 0.2} }

// marked is what gives watermarks that were set; *policykv.Cache does.
type marked interface{ Watermarks() schemas.Watermarks }

// marks are the watermarks as they are set now.
func (l *loop) marks() Watermarks {
	m := DefaultWatermarks()
	at, ok := l.s.Policies.(marked)
	if !ok {
		return m
	}
	set := at.Watermarks()
	for to, from := range map[*float64]*float64{&m.Sessions: set.Sessions, &m.Memory: set.Memory, &m.Pressure: set.Pressure} {
		if from != nil {
			*to = *from
		}
	}
	return m
}

// yield is how long a session has to be without activity before it may have to make
// room, if its own grace isn't shorter.
const yield = 10 * time.Second

// pressEvery is how often a host that is too full is looked at again.
const pressEvery = time.Second

// reportFor is how long what a host says of its memory counts. It says so again before
// that, or it is gone.
const reportFor = 90 * time.Second

// report takes in what a host says of itself.
func (l *loop) report(h schemas.Host) {
	at := l.homeOf(h.Host)
	at.report, at.reported = h, l.now()
	l.suspect(at)
}

// suspect has it looked whether a host is too full.
func (l *loop) suspect(at *home) {
	if _, ok := l.pressed[at]; !ok {
		l.pressed[at] = time.Now()
	}
}

// relieve goes through the hosts that may be too full.
func (l *loop) relieve(ctx context.Context) {
	for at, since := range l.pressed {
		if l.now() < at.look {
			continue // nothing could be done a moment ago
		}
		over, why := l.over(at)
		if over <= 0 {
			delete(l.pressed, at)
			continue
		}
		at.look = l.now() + pressEvery
		for ; over > 0; over-- {
			t, d, ok := l.least(at, since.Add(patience))
			if !ok {
				break // it is looked at again in a while
			}
			l.press(ctx, t, d, why)
		}
	}
}

// over says how many sessions of a host are to be suspended now, and why. Memory that a
// suspend frees is seen when the host says so: for it one goes at a time.
func (l *loop) over(at *home) (n int, why string) {
	m, r := l.marks(), at.report
	leaving := at.leaving()
	if r.Slots > 0 && m.Sessions > 0 {
		most := int(math.Ceil(float64(r.Slots)*m.Sessions - 1e-9))
		if n := len(at.seats) - leaving - most; n > 0 {
			return n, fmt.Sprintf("host %s has %d sessions, %d of its %d slots are to be taken", r.Host, len(at.seats), most, r.Slots)
		}
	}
	if r.Load == nil || leaving > 0 || l.now()-at.reported > reportFor || at.relieved > at.reported {
		return 0, ""
	}
	used := 1 - float64(r.Load.AvailableBytes)/float64(max(r.Load.MemoryBytes, 1))
	switch {
	case m.Memory > 0 && used > m.Memory:
		return 1, fmt.Sprintf("host %s has %.0f%% of its memory in use, %.0f%% is the mark", r.Host, 100*used, 100*m.Memory)
	case m.Pressure > 0 && r.Load.Pressure > m.Pressure:
		return 1, fmt.Sprintf("tasks of host %s wait for memory %.0f%% of the time, %.0f%% is the mark", r.Host, 100*r.Load.Pressure, 100*m.Pressure)
	}
	return 0, ""
}

// leaving counts the sessions of a host that are on their way out.
func (h *home) leaving() (n int) {
	for _, t := range h.seats {
		if t.outbound() {
			n++
		}
	}
	return n
}

// outbound reports whether a session is being suspended, or is about to be.
func (t *tracked) outbound() bool {
	switch t.view.State() {
	case schemas.Suspending, schemas.Suspended:
		return true
	}
	return t.going
}

// least finds the session of a host that matters least of those that may make room. One
// that may soon, until a time, is waited for if it matters less: ok is false.
func (l *loop) least(at *home, until time.Time) (best *tracked, d session.Decision, ok bool) {
	var score float64
	var since time.Time
	for _, t := range at.seats {
		if t.acting || t.outbound() || t.view.State() != schemas.Running {
			continue
		}
		known := l.view(t)
		v := known.Apart() // deciding forgets leases, and what is packed would not know
		p := l.policy(&v)
		e := session.Decide(&v, p.Pressed(yield), time.Now())
		if e.Verdict != session.Suspend && (e.Next.IsZero() || e.Next.After(until)) {
			continue
		}
		s := v.Score(p.Score, time.Now())
		if best == nil || s < score || s == score && v.IdleSince().Before(since) {
			best, d, score, since = t, e, s, v.IdleSince()
		}
	}
	d.Reason = fmt.Sprintf("it matters least, its score is %.0f; %s", score, d.Reason)
	return best, d, best != nil && d.Verdict == session.Suspend
}

// press suspends a session to make room.
func (l *loop) press(ctx context.Context, t *tracked, d session.Decision, why string) {
	d.Pressed, d.Reason = true, why+": "+d.Reason
	t.home.relieved = l.now()
	t.waiting = false
	l.count(t)
	l.carryOut(ctx, t, d)
}

// NoRoom says why a host takes no more sessions.
type NoRoom struct {
	Host    schemas.HostID
	Slots   int
	Because []string // by session
}

func (e *NoRoom) Error() string {
	return fmt.Sprintf("host %s has no room: all its %d slots are taken, and no session on it may be suspended (%s); suspend or remove one, or give it more --slots",
		e.Host, e.Slots, strings.Join(e.Because, "; "))
}

// becauseAtMost is how many sessions a NoRoom speaks of.
const becauseAtMost = 10

// patience is how long it is waited for a session that was used a moment ago and
// matters less than those that weren't; roomEvery is how often making room looks.
const (
	patience  = yield + time.Second
	roomEvery = 50 * time.Millisecond
)

// releaseWait is how long a scheduler that ends is waited for.
const releaseWait = time.Second

// promise is a place that somebody is about to take, or has taken by a session whose record
// hasn't been read here yet.
type promise struct {
	until time.Duration
	by    schemas.UID
}

// promised is how long a place is kept for whoever doesn't say that he took it.
const promised = 5 * time.Minute

// MakeRoom waits until a host has a place for one more session, has one suspended if
// need be, and keeps the place until release is called, with the session that took it if
// one did. It gives what it had
// suspended. The error is a *NoRoom if nothing may be suspended, or that of ctx. A host
// that said of no slots has room.
func (s *Scheduler) MakeRoom(ctx context.Context, h schemas.HostID) (suspended []schemas.Name, release func(taken schemas.Name, by schemas.UID), err error) {
	mine := &promise{}
	release = func(taken schemas.Name, by schemas.UID) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		_ = s.ask(ctx, func(l *loop) { l.release(h, mine, taken, by) }) // else it is free again after a while
	}
	deadline := time.Now().Add(patience)
	for {
		var free, hope bool
		var none *NoRoom
		err := s.ask(ctx, func(l *loop) {
			var name *schemas.Name
			if free, name, none, hope = l.room(ctx, h, mine, deadline); name != nil {
				suspended = append(suspended, *name)
			}
		})
		switch {
		case err == nil && free:
			return suspended, release, nil
		case err == nil && none != nil && !hope:
			err = none
		}
		if err == nil {
			select {
			case <-time.After(roomEvery):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		release(schemas.Name{}, "")
		return suspended, func(schemas.Name, schemas.UID) {}, err
	}
}

// room looks whether a place that was asked for is free, and has a session suspended if
// that needs one more. none says why nothing can be done now; hope that it may be soon.
func (l *loop) room(ctx context.Context, h schemas.HostID, mine *promise, deadline time.Time) (free bool, suspended *schemas.Name, none *NoRoom, hope bool) {
	at := l.homeOf(h)
	at.promises = slices.DeleteFunc(at.promises, func(p *promise) bool { return p.until < l.now() })
	if !slices.Contains(at.promises, mine) {
		mine.until = l.now() + promised
		at.promises = append(at.promises, mine)
	}
	slots, before := at.report.Slots, slices.Index(at.promises, mine)
	if slots == 0 || len(at.seats)+before < slots {
		return true, nil, nil, false
	}
	if len(at.seats)-at.leaving()+before < slots {
		return false, nil, nil, true // it is about to be
	}
	if !l.hearing {
		return false, nil, nil, true // who is in use isn't known yet
	}
	if t, d, ok := l.least(at, deadline); ok {
		l.press(ctx, t, d, fmt.Sprintf("host %s makes room for a session, its %d slots are taken", h, slots))
		n := t.name()
		return false, &n, nil, true
	}
	none, next := l.noRoom(at)
	return false, nil, none, !next.IsZero() && next.Before(deadline)
}

// noRoom says what stands in the way on a host, and when that may be over.
func (l *loop) noRoom(at *home) (none *NoRoom, next time.Time) {
	none = &NoRoom{Host: at.report.Host, Slots: at.report.Slots}
	for _, t := range at.seats {
		known := l.view(t)
		v := known.Apart()
		d := session.Decide(&v, l.policy(&v).Pressed(yield), time.Now())
		if !d.Next.IsZero() && (next.IsZero() || d.Next.Before(next)) {
			next = d.Next
		}
		none.Because = append(none.Because, t.name().String()+": "+d.Reason)
	}
	slices.Sort(none.Because)
	if more := len(none.Because) - becauseAtMost; more > 0 {
		none.Because = append(none.Because[:becauseAtMost], fmt.Sprintf("and %d more", more))
	}
	return none, next
}

// release gives a place up, or has it kept until the record of the session that took it is
// read here: from then on the session itself counts.
func (l *loop) release(h schemas.HostID, p *promise, taken schemas.Name, by schemas.UID) {
	at := l.homeOf(h)
	if t, known := l.find(taken); by != "" && !(known && t.view.UID() == by) {
		p.by = by
		return
	}
	at.promises = slices.DeleteFunc(at.promises, func(q *promise) bool { return p == q })
}

// arrived ends the promise of a place that a session has taken.
func (l *loop) arrived(t *tracked) {
	if at := l.homes[t.view.Host()]; at != nil && len(at.promises) > 0 {
		at.promises = slices.DeleteFunc(at.promises, func(p *promise) bool { return p.by != "" && p.by == t.view.UID() })
	}
}
