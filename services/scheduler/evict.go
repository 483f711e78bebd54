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

// marksOf gives the watermarks as they are set now.
func marksOf(p Policies) Watermarks {
	m := DefaultWatermarks()
	at, ok := p.(marked)
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

// roomy is what gives the slots of hosts where they were set; *policykv.Cache does.
type roomy interface {
	// Slots gives how many sessions a host has room for that announced own, no limit if 0, and what
	// says so if it isn't the host.
	Slots(own int) (slots int, by string)
}

// slotsBy gives the slots of hosts as they are set now.
func slotsBy(p Policies) func(own int) (int, string) {
	if by, ok := p.(roomy); ok {
		return by.Slots
	}
	return func(own int) (int, string) { return own, "" }
}

// yield is how long a session has to be without activity before it may be evicted, if its
// own grace isn't shorter.
const yield = 10 * time.Second

// freshFor is how long a session that came to run is left alone by those that wait for room: who made it, or
// resumed it, may not have attached yet.
const freshFor = 30 * time.Second

// reportFor is how long what a host says of its memory counts. It says so again before
// that, or it is gone.
const reportFor = 90 * time.Second

// NoRoom says why a host takes no more sessions.
type NoRoom struct {
	Host    schemas.HostID
	Slots   int
	Because []Kept // by session, in the order of their names
	Unheard bool   // the host hasn't said yet how much room it has
	Making  bool   // a session leaves it, for one that came before
}

// Kept is a session that may not be suspended, and why.
type Kept struct {
	Session schemas.Name
	Why     string
}

func (e *NoRoom) Error() string { return e.For(anyone) }

// For is the text of the error for those who may know of some sessions alone: others are counted.
func (e *NoRoom) For(known func(schemas.Name) bool) string {
	if e.Unheard {
		return fmt.Sprintf("host %s hasn't said yet how much room it has", e.Host)
	}
	if e.Making {
		return fmt.Sprintf("host %s makes room: all its %d slots are taken, and a session is leaving it", e.Host, e.Slots)
	}
	return fmt.Sprintf("host %s has no room: all its %d slots are taken, and no session on it may be suspended (%s); suspend or remove one, or give it more slots",
		e.Host, e.Slots, reasons(e.Because, known))
}

func anyone(schemas.Name) bool { return true }

// reasons is the text of why sessions may not be suspended: of those that are known. The others are counted.
func reasons(all []Kept, known func(schemas.Name) bool) string {
	var why []string
	others, more := 0, 0
	for _, k := range all {
		switch {
		case !known(k.Session):
			others++
		case len(why) == becauseAtMost:
			more++
		default:
			why = append(why, k.Session.String()+": "+k.Why)
		}
	}
	if more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	if others > 0 {
		why = append(why, fmt.Sprintf("another tenant's: %d", others))
	}
	return strings.Join(why, "; ")
}

// becauseAtMost is how many sessions such a text names.
const becauseAtMost = 10

// evictor suspends sessions before their grace is over, where there is no room for all.
type evictor struct {
	table *table
	hosts *hosts
	lag   *lag
	actor *actor
	// pulses say which sessions a machine uses.
	pulses pulses
}

// relieve goes through the hosts that may be too full, and evicts from those that are.
func (e *evictor) relieve(ctx context.Context) {
	if len(e.hosts.crowded) == 0 || !e.lag.inTime() {
		return
	}
	for at, since := range e.hosts.crowded {
		if e.hosts.now() < at.look {
			continue // nothing could be done a moment ago
		}
		over, why := e.excess(at)
		if over <= 0 {
			delete(e.hosts.crowded, at)
			continue
		}
		at.look = e.hosts.now() + recheckEvery
		for ; over > 0; over-- {
			t, d, ok := e.least(at.slots, since.Add(patience))
			if !ok {
				break // it is looked at again in a while
			}
			e.evict(ctx, t, d, schemas.PausePressure, why)
		}
	}
}

// excess says how many sessions of a host are to be evicted now, and why. Memory that a
// suspend frees is seen when the host says so: for memory one goes at a time.
func (e *evictor) excess(at *host) (n int, why string) {
	m, r := marksOf(e.table.policies), at.report
	leaving := leaving(at.slots)
	if slots := e.hosts.slots(at); slots > 0 && m.Sessions > 0 {
		most := int(math.Ceil(float64(slots)*m.Sessions - 1e-9))
		if n := len(at.slots) - leaving - most; n > 0 {
			return n, fmt.Sprintf("host %s has %s, %d of its %s are to be taken", r.Host, schemas.CountSessions(len(at.slots)), most, e.hosts.namedSlots(at))
		}
	}
	if r.Load == nil || leaving > 0 || e.hosts.now()-at.reported > reportFor || at.eased > at.reported {
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

// least finds the session that matters least of those that may be evicted. One that may be
// soon, until a time, is waited for if it matters less: ok is false.
func (e *evictor) least(all []*tracked, until time.Time) (best *tracked, d session.Decision, ok bool) {
	return e.lowest(all, until, false)
}

// lowest is least; with now, also those may be evicted that were used a moment ago.
func (e *evictor) lowest(all []*tracked, until time.Time, now bool) (best *tracked, d session.Decision, ok bool) {
	var score float64
	var since time.Time
	for _, t := range all {
		if t.acting || t.outbound() || t.view.state() != schemas.Running {
			continue
		}
		v := e.table.view(t)
		p := e.table.policy(&v)
		idle := e.yields(t, &v, now)
		one := session.Decide(&v, p.Pressed(idle), time.Now())
		if idle == 0 {
			one.Reason += fmt.Sprintf("; at once: nothing holds it, and no machine used it for %.0f s", pulseFor.Seconds())
		}
		if one.Verdict != session.Suspend && (one.Next.IsZero() || one.Next.After(until)) {
			continue
		}
		s := v.Score(p.Score, time.Now())
		if best == nil || s < score || s == score && v.IdleSince().Before(since) {
			best, d, score, since = t, one, s, v.IdleSince()
		}
	}
	d.Reason = fmt.Sprintf("it matters least, its score is %.0f; %s", score, d.Reason)
	return best, d, best != nil && d.Verdict == session.Suspend
}

// yields is how long a session has to be without activity before it is evicted. With now, its last use
// being over is enough, if it was no machine's: that goes on. A session that came to run a moment ago is
// left for those who had it run.
func (e *evictor) yields(t *tracked, v *session.View, now bool) time.Duration {
	switch {
	case !now:
		return yield
	case e.pulses.beats(t, e.hosts.now()), time.Since(v.HeardSince) < pulseFor: // or it may, unheard
		return pulseFor
	case time.Since(v.Known().Since) < freshFor:
		return freshFor
	}
	return 0
}

// evict suspends a session to make room.
func (e *evictor) evict(ctx context.Context, t *tracked, d session.Decision, pause schemas.PauseReason, why string) {
	if d.Reason = why + ": " + d.Reason; d.Pause != schemas.PauseExpired {
		d.Pause = pause
	}
	t.host.eased = e.hosts.now()
	t.waiting = false
	e.hosts.count(t)
	e.actor.carryOut(ctx, t, d)
}

// room looks whether a slot that was asked for is free, and evicts a session if that needs
// one more. none says why nothing can be done now; hope that it may be soon.
func (e *evictor) room(ctx context.Context, mine schemas.Place, deadline time.Time, now bool) (free bool, suspended *schemas.Name, none *NoRoom, hope bool) {
	at := e.hosts.of(mine.Host)
	e.hosts.settle(at)
	slots, before := e.hosts.slots(at), e.hosts.before(mine)
	switch {
	case slots == 0:
		return true, nil, nil, false
	case before < 0 || !e.lag.hearing:
		return false, nil, nil, true // earlier reservations, or what is in use, aren't known yet
	case len(at.slots)+at.coming+before < slots:
		return true, nil, nil, false
	case len(at.slots)+at.coming-leaving(at.slots)+before < slots:
		return false, nil, nil, true // it is about to be
	case !e.lag.inTime():
		return false, nil, nil, true // what is in use now isn't known
	}
	if t, d, ok := e.lowest(at.slots, deadline, now); ok {
		e.evict(ctx, t, d, schemas.PausePressure, fmt.Sprintf("host %s makes room for a session, its %s are taken", mine.Host, e.hosts.namedSlots(at)))
		n := t.name()
		return false, &n, nil, true
	}
	none, next := e.noRoom(at, now)
	return false, nil, none, !next.IsZero() && next.Before(deadline)
}

// noRoom says what keeps a host from making room, and when that may be over.
func (e *evictor) noRoom(at *host, now bool) (none *NoRoom, next time.Time) {
	none = &NoRoom{Host: at.report.Host, Slots: e.hosts.slots(at)}
	none.Because, next = e.because(at.slots, now)
	return none, next
}

// because says why each of some sessions may not be suspended, and when one may be that
// can't be now.
func (e *evictor) because(all []*tracked, now bool) (why []Kept, next time.Time) {
	for _, t := range all {
		v := e.table.view(t)
		d := session.Decide(&v, e.table.policy(&v).Pressed(e.yields(t, &v, now)), time.Now())
		if !d.Next.IsZero() && (next.IsZero() || d.Next.Before(next)) {
			next = d.Next
		}
		why = append(why, Kept{t.name(), d.Reason})
	}
	slices.SortFunc(why, func(a, b Kept) int { return strings.Compare(a.Session.String(), b.Session.String()) })
	return why, next
}
