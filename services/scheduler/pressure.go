package scheduler

import (
	"context"
	"fmt"
	"math"
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
	if !l.abreast() {
		return
	}
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
			t, d, ok := l.least(at.seats, since.Add(patience))
			if !ok {
				break // it is looked at again in a while
			}
			l.press(ctx, t, d, schemas.PausePressure, why)
		}
	}
}

// over says how many sessions of a host are to be suspended now, and why. Memory that a
// suspend frees is seen when the host says so: for it one goes at a time.
func (l *loop) over(at *home) (n int, why string) {
	m, r := l.marks(), at.report
	leaving := leaving(at.seats)
	if r.Slots > 0 && m.Sessions > 0 {
		most := int(math.Ceil(float64(r.Slots)*m.Sessions - 1e-9))
		if n := len(at.seats) - leaving - most; n > 0 {
			return n, fmt.Sprintf("host %s has %s, %d of its %d slots are to be taken", r.Host, schemas.CountSessions(len(at.seats)), most, r.Slots)
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

// leaving counts the sessions that are on their way out.
func leaving(seats []*tracked) (n int) {
	for _, t := range seats {
		if t.outbound() {
			n++
		}
	}
	return n
}

// outbound reports whether a session is being suspended, or is about to be.
func (t *tracked) outbound() bool {
	switch t.view.state() {
	case schemas.Suspending, schemas.Suspended:
		return true
	}
	return t.going
}

// least finds the session that matters least of those that may make room. One that may
// soon, until a time, is waited for if it matters less: ok is false.
func (l *loop) least(seats []*tracked, until time.Time) (best *tracked, d session.Decision, ok bool) {
	var score float64
	var since time.Time
	for _, t := range seats {
		if t.acting || t.outbound() || t.view.state() != schemas.Running {
			continue
		}
		v := l.view(t)
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
func (l *loop) press(ctx context.Context, t *tracked, d session.Decision, pause schemas.PauseReason, why string) {
	if d.Reason = why + ": " + d.Reason; d.Pause != schemas.PauseExpired {
		d.Pause = pause
	}
	t.home.relieved = l.now()
	t.waiting = false
	l.count(t)
	l.carryOut(ctx, t, d)
}
