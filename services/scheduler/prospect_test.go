package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// makeNow has room made at once, and gives the sessions that were evicted for it.
func (c *crowd) makeNow() (taken []string, err error) {
	c.t.Helper()
	type made struct {
		names   []schemas.Name
		release func(statekv.Revision)
		err     error
	}
	done := make(chan made, 1)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	go func() {
		names, release, err := c.MakeRoomNow(ctx, "h", schemas.Name{Tenant: "acme", Session: "new"})
		done <- made{names, release, err}
	}()
	synctest.Wait()
	c.gone()
	m := <-done
	for _, n := range m.names {
		taken = append(taken, string(n.Session))
	}
	m.release(statekv.Revision{})
	synctest.Wait()
	return taken, m.err
}

func (c *crowd) prospect() Prospect {
	c.t.Helper()
	all, err := c.Prospects(c.t.Context(), []schemas.HostID{"h"})
	if err != nil {
		c.t.Error(err)
	}
	return all["h"]
}

// Room is made at once by a session that was used a moment ago, unless something says that it is in use: a lease, or
// a machine that uses it again and again.
func TestRoomIsMadeAtOnce(t *testing.T) {
	for _, x := range []struct {
		name  string
		kind  schemas.Kind
		key   string
		taken bool
	}{
		{"typed a moment ago", schemas.KindInput, "", true},
		{"ran a command a moment ago", schemas.KindExec, "", true},
		{"a tab is open", schemas.KindPresence, "tab", false},
		{"a page is visible", schemas.KindHeartbeat, "", false},
		{"asked for by HTTP", schemas.KindHTTP, "", false},
		{"an agent", schemas.KindAgent, "run_start", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			inCrowd(t, func(t *testing.T, c *crowd) {
				c.host(schemas.Host{Host: "h", Slots: 1})
				c.run("a", schemas.MadeByPerson)
				time.Sleep(2 * pulseFor)
				c.say("a", x.kind, x.key, time.Hour)
				time.Sleep(time.Second)
				if want := map[bool]Prospect{true: Makes, false: Full}[x.taken]; c.prospect() != want {
					t.Errorf("the prospect is %d, want %d", c.prospect(), want)
				}
				at := time.Now()
				taken, err := c.makeNow()
				var none *NoRoom
				switch {
				case x.taken && (err != nil || !slices.Equal(taken, []string{"a"})):
					t.Errorf("taken: %v, %v", taken, err)
				case !x.taken && (!errors.As(err, &none) || len(taken) > 0):
					t.Errorf("taken though it is in use: %v, %v", taken, err)
				}
				if all := c.swapped(); x.taken && !strings.HasSuffix(all[len(all)-1].Reason, "; at once: nothing holds it, and no machine used it for 75 s") {
					t.Errorf("the log says %q", all[len(all)-1].Reason)
				}
				if took := time.Since(at); took > time.Second {
					t.Errorf("that took %s", took)
				}
			})
		})
	}
}

// What a machine uses may be taken when it wasn't heard again for its interval.
func TestPulseEnds(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		c.host(schemas.Host{Host: "h", Slots: 1})
		c.run("a", schemas.MadeByPerson)
		time.Sleep(2 * pulseFor)
		c.say("a", schemas.KindHeartbeat, "", 0)
		c.say("a", schemas.KindInput, "", 0) // which doesn't hide it
		time.Sleep(pulseFor - time.Second)
		if got := c.prospect(); got != Full {
			t.Errorf("within the interval the prospect is %d", got)
		}
		time.Sleep(time.Second)
		if got := c.prospect(); got != Makes {
			t.Errorf("after it the prospect is %d", got)
		}
	})
}

// A session that came to run a moment ago isn't taken before its users could attach: else each of those that wait
// for room would take it from the one before.
func TestFreshIsNotTakenAtOnce(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		c.host(schemas.Host{Host: "h", Slots: 1})
		time.Sleep(2 * pulseFor)
		c.run("a", schemas.MadeByPerson)
		if got := c.prospect(); got != Full {
			t.Errorf("as it came to run the prospect is %d", got)
		}
		time.Sleep(freshFor - time.Second)
		if got := c.prospect(); got != Full {
			t.Errorf("soon after the prospect is %d", got)
		}
		time.Sleep(time.Second)
		if got := c.prospect(); got != Makes {
			t.Errorf("later the prospect is %d", got)
		}
	})
}

// Soon after activity couldn't be heard, a machine may use a session without that being known.
func TestUnheardIsNotTakenAtOnce(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		c.host(schemas.Host{Host: "h", Slots: 1})
		c.run("a", schemas.MadeByPerson)
		time.Sleep(2 * pulseFor)
		c.talk.said <- stream.Heard{Gap: true}
		c.say("a", schemas.KindInput, "", 0)
		if got := c.prospect(); got != Full {
			t.Errorf("after a gap the prospect is %d", got)
		}
		time.Sleep(pulseFor - time.Second)
		if got := c.prospect(); got != Full {
			t.Errorf("within the interval the prospect is %d", got)
		}
		time.Sleep(time.Second)
		if got := c.prospect(); got != Makes {
			t.Errorf("later the prospect is %d", got)
		}
	})
}

// Reservations and sessions that leave count: no second one is evicted for the same.
func TestProspectCountsWhatLeaves(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		if got := c.prospect(); got != Unheard {
			t.Errorf("before the host has said anything the prospect is %d", got)
		}
		if _, err := c.makeNow(); err == nil || !strings.Contains(err.Error(), "hasn't said yet") {
			t.Errorf("room before the host has said anything: %v", err)
		}
		c.host(schemas.Host{Host: "h", Slots: 3})
		if got := c.prospect(); got != Free {
			t.Errorf("of an empty host the prospect is %d", got)
		}
		for _, id := range []string{"a", "b", "c"} {
			c.run(id, schemas.MadeByPerson)
		}
		time.Sleep(2 * pulseFor)
		c.say("b", schemas.KindHold, "tea", time.Hour)
		c.say("c", schemas.KindHold, "tea", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, release, err := c.MakeRoomNow(ctx, "h", schemas.Name{Tenant: "acme", Session: "new"})
			release(statekv.Revision{})
			done <- err
		}()
		time.Sleep(time.Second) // a leaves, for the one that has reserved its slot
		if got := c.prospect(); got != Full {
			t.Errorf("the room that is made for another gives the prospect %d", got)
		}
		none, err := c.NoRoomNow(t.Context(), "h")
		if err != nil || !none.Making || !strings.Contains(none.Error(), "host h makes room") {
			t.Errorf("no room: %v, %v", none, err)
		}
		cancel()
		<-done
		synctest.Wait()
		if got := c.prospect(); got != Makes {
			t.Errorf("the room that is made for none gives the prospect %d", got)
		}
		c.gone()
		if got := c.prospect(); got != Free {
			t.Errorf("once it is gone the prospect is %d", got)
		}
	})
}

// A session without a host takes no slot of any.
func TestQueuedTakesNoSlot(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		c.host(schemas.Host{Host: "h", Slots: 1})
		c.fake.Put(schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "q", State: schemas.Starting, Class: "terminal", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart, Unplaced: true}})
		synctest.Wait()
		if got := c.prospect(); got != Free {
			t.Errorf("the prospect is %d", got)
		}
		if err := c.ask(t.Context(), func(l *loop) {
			if n := len(l.hosts.of("").slots); n > 0 {
				t.Errorf("%d sessions are on no host", n)
			}
		}); err != nil {
			t.Error(err)
		}
	})
}

// It is said when there may be more room: a host says so, a session leaves, a lease is released.
func TestStirred(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		stirred := func() bool {
			synctest.Wait()
			select {
			case <-c.Stirred():
				return true
			default:
				return false
			}
		}
		c.host(schemas.Host{Host: "h", Slots: 1})
		if !stirred() {
			t.Error("a host that says something stirs nothing")
		}
		c.run("a", schemas.MadeByPerson)
		c.say("a", schemas.KindInput, "", 0)
		if stirred() {
			t.Error("use of a session stirs")
		}
		c.fake.Put(schemas.SessionRecord{UID: "uida", Tenant: "acme", Session: "a", State: schemas.Exited, Class: "web", Host: "h"})
		if !stirred() {
			t.Error("a session that ends stirs nothing")
		}
	})
}

// Policies may give hosts more slots.
func TestPoliciesStir(t *testing.T) {
	s := &spacious{most: 1}
	inCrowdOf(t, func(c *crowd) Options {
		s.changed = make(chan struct{})
		return Options{Bus: c.talk, Policies: s}
	}, func(t *testing.T, c *crowd) {
		s.changed <- struct{}{}
		synctest.Wait()
		select {
		case <-c.Stirred():
		default:
			t.Error("policies that change stir nothing")
		}
	})
}
