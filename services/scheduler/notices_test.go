package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// crier is a Bus that tells of events when it is let.
type crier struct {
	talk
	let  chan struct{}
	told chan schemas.Event
}

func (b crier) Event(_ context.Context, e schemas.Event) error {
	<-b.let
	b.told <- e
	return nil
}

// warning has every session warned.
type warning struct{ builtin }

func (warning) For(r schemas.SessionRecord) session.Policy {
	p := builtin{}.For(r)
	p.Warn = time.Minute
	return p
}

// Of very many sessions that are to be warned at once some wait, and none is left out.
func TestNoticesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 3*tellAtOnce + 1
		bus := crier{let: make(chan struct{}), told: make(chan schemas.Event, sessions)}
		l := newLoop(New(Options{Bus: bus, Policies: warning{}}))
		ctx, cancel := context.WithCancel(t.Context())
		defer l.actor.acts.wait()
		defer cancel()
		l.hear(&stream.Heard{CaughtUp: true})
		for i := range sessions {
			seen(l, "a", fmt.Sprint("s", i), schemas.Running, nil, "person")
		}
		p := warning{}.For(schemas.SessionRecord{Class: "web"})
		time.Sleep(p.Grace - p.Warn/2)
		l.turn(ctx)
		if l.actor.telling != tellAtOnce {
			t.Errorf("%d notices are under way at once", l.actor.telling)
		}
		close(bus.let)
		for l.actor.telling > 0 {
			for l.actor.telling > 0 {
				(<-l.s.asks)(l)
			}
			time.Sleep(actAgain)
			l.turn(ctx)
		}
		if len(bus.told) != sessions {
			t.Errorf("%d of %d sessions were warned", len(bus.told), sessions)
		}
	})
}
