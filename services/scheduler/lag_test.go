package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// lagging is a Bus that is behind: what is said is heard after a time.
type lagging struct {
	talk
}

func (b lagging) Activity(ctx context.Context, fn func(stream.Heard)) error {
	fn(stream.Heard{CaughtUp: true, Through: time.Now()})
	return b.talk.listen(ctx, fn)
}

// A silence that is one only because what was said hasn't been heard yet suspends no session,
// neither for idleness nor to make room; what wakes, wakes.
func TestNoneIsSuspendedUnheard(t *testing.T) {
	inCrowdOf(t, func(c *crowd) Options { return Options{Bus: lagging{talk: c.talk}} }, func(t *testing.T, c *crowd) {
		c.run("a", "person")
		c.run("b", "agent")
		c.sleeps("x")
		c.host(schemas.Host{Host: "h", Slots: 2})
		began := time.Now()
		time.Sleep(2 * time.Hour)
		if got := c.gone(); len(got) != 0 {
			t.Fatalf("nothing was heard for two hours, and suspended is %v", got)
		}
		e, _, err := c.Explain(t.Context(), schemas.Name{Tenant: "acme", Session: "a"})
		if err != nil || !strings.Contains(e.Text, "activity of the last 2h0m0s hasn't been heard yet") {
			t.Errorf("%+v, %v", e, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, _, err := c.MakeRoom(ctx, "h", schemas.Name{Tenant: "acme", Session: "new"}); err == nil || len(got) > 0 {
			t.Errorf("a session made room unheard: %v, %v", got, err)
		}
		c.say("x", schemas.KindInput, "", 0)
		if c.states(map[string]schemas.State{"x": schemas.Resuming}); len(c.swapped()) != 1 {
			t.Errorf("%v", c.swapped())
		}
		c.say("a", schemas.KindInput, "", 0) // it was in use
		c.through(began.Add(time.Minute))    // and there is more to be heard
		if got := c.gone(); len(got) != 1 {
			t.Errorf("with more to be heard: %v", got)
		}
		c.through(time.Now())
		synctest.Wait()
		c.states(map[string]schemas.State{"a": schemas.Running, "b": schemas.Suspending})
	})
}

// While activity isn't taken nothing is known of who is in use; afterwards each grace starts
// again, since what was said meanwhile is lost.
func TestNoneIsSuspendedWhileNothingIsTaken(t *testing.T) {
	var intake chan bool
	options := func(c *crowd) Options {
		intake = make(chan bool)
		return Options{Bus: lagging{talk: c.talk}, Taken: intake}
	}
	inCrowdOf(t, options, func(t *testing.T, c *crowd) {
		c.run("a", "person")
		c.sleeps("x")
		none := func(after time.Duration) {
			t.Helper()
			time.Sleep(after)
			c.through(time.Now())
			if got := c.gone(); len(got) != 0 {
				t.Fatalf("suspended is %v", got)
			}
		}
		none(30 * time.Minute)
		intake <- false
		none(2 * time.Hour)
		e, _, err := c.Explain(t.Context(), schemas.Name{Tenant: "acme", Session: "a"})
		if err != nil || !strings.Contains(e.Text, "activity of the last 2h0m0s hasn't been heard yet") {
			t.Errorf("%+v, %v", e, err)
		}
		c.say("x", schemas.KindInput, "", 0) // from one with credentials
		if c.states(map[string]schemas.State{"x": schemas.Resuming}); len(c.swapped()) != 1 {
			t.Errorf("%v", c.swapped())
		}
		intake <- true
		synctest.Wait()
		if got := c.gone(); len(got) != 1 {
			t.Errorf("when activity was taken again: %v", got)
		}
		time.Sleep(59 * time.Minute)
		c.through(time.Now())
		c.states(map[string]schemas.State{"a": schemas.Running})
		time.Sleep(2 * time.Minute)
		c.through(time.Now())
		c.states(map[string]schemas.State{"a": schemas.Suspending})
	})
}

// Activity of one session that isn't taken starts its grace again, and that of no other.
func TestOneSessionIsMissed(t *testing.T) {
	inCrowdOf(t, func(c *crowd) Options { return Options{Bus: lagging{talk: c.talk}} }, func(t *testing.T, c *crowd) {
		c.run("a", "person")
		c.run("b", "person")
		time.Sleep(59 * time.Minute)
		c.Missed(schemas.Name{Tenant: "acme", Session: "a"})
		c.Missed(schemas.Name{Tenant: "acme", Session: "none"})
		time.Sleep(2 * time.Minute)
		c.through(time.Now())
		c.states(map[string]schemas.State{"a": schemas.Running, "b": schemas.Suspending})
		time.Sleep(time.Hour)
		c.through(time.Now())
		c.states(map[string]schemas.State{"a": schemas.Suspending})
	})
}

func (c *crowd) through(at time.Time) {
	c.talk.said <- stream.Heard{Through: at}
	synctest.Wait()
}

// asked is a Bus that says up to when all was heard when it is asked to.
type asked struct {
	talk
	asks chan struct{}
}

func (b asked) Activity(ctx context.Context, fn func(stream.Heard)) error {
	fn(stream.Heard{CaughtUp: true, Through: time.Now()})
	for {
		select {
		case h := <-b.said:
			fn(h)
		case <-b.asks:
			fn(stream.Heard{Through: time.Now()})
		case <-ctx.Done():
			return nil
		}
	}
}

func (b asked) Ask() {
	select {
	case b.asks <- struct{}{}:
	default:
	}
}

// It is asked whether all was heard when a suspend is due, and neither before nor without end while
// activity isn't taken. The suspend isn't later for it.
func TestWhetherAllWasHeardIsAskedWhenASuspendIsDue(t *testing.T) {
	var intake chan bool
	var bus asked
	options := func(c *crowd) Options {
		intake, bus = make(chan bool), asked{talk: c.talk, asks: make(chan struct{}, 1)}
		return Options{Bus: bus, Taken: intake}
	}
	inCrowdOf(t, options, func(t *testing.T, c *crowd) {
		c.run("a", "person")
		time.Sleep(time.Hour - time.Millisecond)
		synctest.Wait()
		c.states(map[string]schemas.State{"a": schemas.Running})
		time.Sleep(time.Millisecond)
		synctest.Wait()
		c.states(map[string]schemas.State{"a": schemas.Suspending})
		intake <- false
		c.run("b", "person")
		time.Sleep(2 * time.Hour)
		synctest.Wait() // for ever, if it asks without end
		c.states(map[string]schemas.State{"b": schemas.Running})
	})
}

// spoken is what a stream took, and when.
type spoken struct {
	session int
	at      time.Time
}

// For all activity, however late it is heard: no session is suspended of which the stream
// had taken something within his grace, but for the last moment.
func TestNoFalseSilenceWithAnyLag(t *testing.T) {
	const sessions, runs = 8, 300
	graces := []time.Duration{3 * time.Second, 10 * time.Second, time.Minute}
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := newLoop(New(Options{Records: statekvtest.New(), Bus: talk{}}))
			ctx, cancel := context.WithCancel(t.Context())
			defer l.actor.acts.wait()
			defer cancel()
			l.hear(&stream.Heard{CaughtUp: true, Through: time.Now()})
			var all []*tracked
			for i := range sessions {
				t := seen(l, "h", fmt.Sprint("s", i), schemas.Running, nil, "person")
				v := l.table.view(t)
				v.Record.Idle = &schemas.Idle{Grace: graces[i%len(graces)].Milliseconds()}
				l.see(&statekv.Glance{Record: v.Record})
				all = append(all, t)
			}
			suspended := map[int]bool{}
			var taken []spoken
			heard, lag := 0, time.Duration(0)
			for range 400 {
				time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
				now := time.Now()
				if r.IntN(3) == 0 {
					taken = append(taken, spoken{r.IntN(sessions), now})
				}
				if r.IntN(20) == 0 {
					lag = []time.Duration{0, 0, 500 * time.Millisecond, 5 * time.Second, 30 * time.Second}[r.IntN(5)]
				}
				for heard < len(taken) && now.Sub(taken[heard].at) >= lag {
					n := all[taken[heard].session].name()
					l.hear(&stream.Heard{Message: session.Message{Source: schemas.Source{Name: n, Kind: schemas.KindInput}, Seq: uint64(heard + 1), At: now}})
					heard++
				}
				through := now
				if heard < len(taken) {
					through = taken[heard].at
				}
				if through.After(l.lag.through) {
					l.hear(&stream.Heard{Through: through})
				}
				l.turn(ctx)
				for i, at := range all {
					if !at.going || suspended[i] {
						continue
					}
					suspended[i] = true
					for _, s := range taken {
						if quiet := now.Sub(s.at); s.session == i && quiet < graces[i%len(graces)] && quiet > lagMost {
							t.Fatalf("seed %d: session %d is suspended %v after it was used, its grace is %v; the reader is %v behind", seed, i, quiet, graces[i%len(graces)], lag)
						}
					}
				}
			}
			if len(suspended) == 0 && seed == 0 {
				t.Error("no session is ever suspended")
			}
		})
	}
}
