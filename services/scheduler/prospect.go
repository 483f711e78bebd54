package scheduler

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Prospect says whether a host takes one more session now.
type Prospect int

// The prospects, the best last.
const (
	Unheard Prospect = iota // it hasn't said how much room it has, or what is in use isn't known
	Full                    // its slots are taken, and no session may be evicted now
	Makes                   // a session leaves it, or may be evicted now
	Free                    // it has a free slot
)

// MakeRoomNow is MakeRoom for a session that doesn't wait until others are idle: also one may be evicted
// that was used a moment ago, if it holds no lease and no machine uses it. It waits for sessions that
// leave the host alone. A host that hasn't said how much room it has gives a *NoRoom.
func (s *Scheduler) MakeRoomNow(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error) {
	return s.makeRoom(ctx, h, who, true)
}

// Prospects says of hosts whether MakeRoomNow would find room there. Nothing is done or reserved for that.
func (s *Scheduler) Prospects(ctx context.Context, all []schemas.HostID) (out map[schemas.HostID]Prospect, err error) {
	err = s.ask(ctx, func(l *loop) {
		out = make(map[schemas.HostID]Prospect, len(all))
		for _, h := range all {
			out[h] = l.evictor.prospect(h, s.Hosts == nil)
		}
	})
	return out, err
}

// prospect looks at one host. Slots that others have reserved count as taken, and room that is being made for
// these as theirs.
func (e *evictor) prospect(name schemas.HostID, silent bool) Prospect {
	at := e.hosts.of(name)
	e.hosts.settle(at)
	taken, slots := len(at.slots)+at.coming+len(at.reserved), e.hosts.slots(at)
	switch {
	case at.report.Host == "" && !silent, !e.lag.hearing:
		return Unheard
	case slots == 0, taken < slots:
		return Free
	case taken-leaving(at.slots) < slots:
		return Makes
	case !e.lag.inTime():
		return Unheard
	}
	if _, _, ok := e.lowest(at.slots, time.Now(), true); ok {
		return Makes
	}
	return Full
}

// NoRoomNow says why a host has no room for one more session now.
func (s *Scheduler) NoRoomNow(ctx context.Context, h schemas.HostID) (none *NoRoom, err error) {
	err = s.ask(ctx, func(l *loop) {
		at := l.hosts.of(h)
		if at.report.Host == "" {
			none = &NoRoom{Host: h, Unheard: true}
			return
		}
		none, _ = l.evictor.noRoom(at, true)
		none.Making = leaving(at.slots) > 0
	})
	return none, err
}

// Stirred delivers after a host has said something of itself, policies have changed, or a session has left a host or
// is about to: there may be room. It has one reader at a time.
func (s *Scheduler) Stirred() <-chan struct{} { return s.stirred }
