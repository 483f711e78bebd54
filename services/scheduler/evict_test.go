package scheduler

import (
	"context"
	"errors"
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

// swapped are the transitions that the scheduler made.
func (c *crowd) swapped() (all []schemas.Transition) {
	c.t.Helper()
	err := c.fake.Log(c.t.Context(), func(v statekv.Versioned) error {
		if v.Transition.ID != "" {
			all = append(all, v.Transition)
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
	return all
}

// talk is a Bus and Hosts that say what a test has them say.
type talk struct {
	said  chan stream.Heard
	hosts chan schemas.Host
}

func (b talk) Activity(ctx context.Context, fn func(stream.Heard)) error {
	fn(stream.Heard{CaughtUp: true})
	return b.listen(ctx, fn)
}

func (b talk) listen(ctx context.Context, fn func(stream.Heard)) error {
	for {
		select {
		case h := <-b.said:
			fn(h)
		case <-ctx.Done():
			return nil
		}
	}
}

func (b talk) Hosts(ctx context.Context, fn func(schemas.Host)) error {
	for {
		select {
		case h := <-b.hosts:
			fn(h)
		case <-ctx.Done():
			return nil
		}
	}
}

func (talk) Command(context.Context, schemas.SessionRecord) error { return nil }

// crowd is a scheduler and one host, in a time of their own.
type crowd struct {
	*Scheduler
	t    *testing.T
	fake *statekvtest.Fake
	talk talk
	seq  uint64
}

func inCrowd(t *testing.T, do func(t *testing.T, c *crowd)) {
	inCrowdOf(t, func(c *crowd) Options { return Options{Bus: c.talk} }, do)
}

func inCrowdOf(t *testing.T, made func(*crowd) Options, do func(t *testing.T, c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, fake: statekvtest.New(),
			talk: talk{make(chan stream.Heard), make(chan schemas.Host)}}
		o := made(c)
		o.Records, o.Hosts, o.Actor = c.fake, c.talk, "scheduler@h"
		c.Scheduler = New(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Serve(ctx) }()
		<-c.Ready()
		do(t, c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// run makes a session that runs on the host, of a class with an hour's grace.
func (c *crowd) run(id string, madeBy schemas.MadeBy) {
	n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}
	c.fake.Put(schemas.SessionRecord{
		UID: schemas.UID("uid" + id), Tenant: n.Tenant, Session: n.Session, State: schemas.Running, Class: "web", Host: "h", MadeBy: madeBy,
		Idle: &schemas.Idle{Grace: time.Hour.Milliseconds()},
	})
	synctest.Wait()
}

// host says something of itself.
func (c *crowd) host(h schemas.Host) {
	c.talk.hosts <- h
	synctest.Wait()
}

func (c *crowd) say(id string, k schemas.Kind, key string, ttl time.Duration) {
	c.seq++
	c.talk.said <- stream.Heard{Message: session.Message{
		Source:   schemas.Source{Name: schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}, Kind: k, Key: key},
		Activity: schemas.Activity{TTL: schemas.Duration(ttl), Reason: "tea"}, Seq: c.seq, At: time.Now(),
	}}
	synctest.Wait()
}

// gone ends the suspends that were started, as a worker does, and lists them all.
func (c *crowd) gone() (ids []string) {
	synctest.Wait()
	all, err := c.fake.All(c.t.Context())
	if err != nil {
		c.t.Error(err)
	}
	for _, v := range all {
		if v.State == schemas.Suspending {
			v.State, v.Op = schemas.Suspended, nil
			c.fake.Put(v.SessionRecord)
		}
	}
	synctest.Wait()
	for _, t := range c.swapped() {
		ids = append(ids, t.Reason)
	}
	return ids
}

func (c *crowd) state(id string) schemas.State {
	v, _ := c.fake.Get(c.t.Context(), schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)})
	return v.State
}

// Above 8 of 10 slots what matters least goes, in that order, as soon as it wasn't used
// for a moment; what has a live lease never does.
func TestPressureOfSlots(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		for _, id := range []string{"p1", "p2", "p3", "p4", "p5", "p6", "p7"} {
			c.run(id, "person")
		}
		c.run("a1", "agent")
		c.run("a2", "agent")
		c.say("a1", schemas.KindHold, "tea", 24*time.Hour)
		c.host(schemas.Host{Host: "h", Slots: 10})
		time.Sleep(yield - time.Second)
		if got := c.gone(); len(got) != 0 {
			t.Fatalf("used a moment ago, and suspended: %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := c.gone(); len(got) != 1 || c.state("a2") != schemas.Suspended || !strings.Contains(got[0], "host h has 9 sessions, 8 of its 10 slots") {
			t.Fatalf("9 of 10: %v, a2 is %s", got, c.state("a2"))
		}
		if tr := c.swapped()[0]; tr.Set.Op.Trigger != "pressure" || !tr.Set.Op.Idle {
			t.Errorf("its op is %+v", tr.Set.Op)
		}
		c.say("p5", schemas.KindExec, "", 0)
		c.say("p1", schemas.KindInput, "", 0)
		c.run("p8", "person")
		c.run("p9", "person")
		time.Sleep(2 * yield)
		if c.gone(); len(c.swapped()) != 3 || c.state("a1") != schemas.Running || c.state("p1") != schemas.Running || c.state("p5") != schemas.Running {
			t.Errorf("10 of 10: %v; a1 with its lease is %s, p1 and p5, who were given commands, %s and %s", c.gone(), c.state("a1"), c.state("p1"), c.state("p5"))
		}
		time.Sleep(10 * time.Minute)
		if got := c.gone(); len(got) != 3 {
			t.Errorf("at the mark, and suspended: %v", got)
		}
	})
}

// spacious has hosts have slots that they didn't announce.
type spacious struct {
	builtin
	most    int
	changed chan struct{}
}

func (s *spacious) Slots(int) (int, string)  { return s.most, "preset terminals" }
func (s *spacious) Changed() <-chan struct{} { return s.changed }

// Slots that are set hold for a host that announced none, at once when they change, and the log has what set them.
func TestSlotsThatAreSet(t *testing.T) {
	s := &spacious{most: 10, changed: make(chan struct{})}
	inCrowdOf(t, func(c *crowd) Options {
		s.changed = make(chan struct{})
		return Options{Bus: c.talk, Policies: s}
	}, func(t *testing.T, c *crowd) {
		c.host(schemas.Host{Host: "h"})
		for _, id := range []string{"s1", "s2", "s3"} {
			c.run(id, "agent")
		}
		time.Sleep(time.Minute)
		if got := c.gone(); len(got) != 0 {
			t.Fatalf("3 of 10, and suspended: %v", got)
		}
		s.most = 2
		s.changed <- struct{}{}
		time.Sleep(3 * time.Second)
		if got := c.gone(); len(got) != 1 || !strings.Contains(got[0], "host h has 3 sessions, 2 of its 2 slots (preset terminals) are to be taken") {
			t.Errorf("3 of 2: %v", got)
		}
		if limited, err := c.limited(t.Context(), "h", false); err != nil || !limited {
			t.Errorf("it has no limit: %v", err)
		}
		if has, err := c.HasRoom(t.Context(), "h"); err != nil || has {
			t.Errorf("it has room: %v", err)
		}
	})
}

// A default goes after what a host says of itself: until that is read it has no limit.
func TestDefaultSlotsWaitForTheReport(t *testing.T) {
	s := &spacious{most: 2}
	inCrowdOf(t, func(c *crowd) Options {
		s.changed = make(chan struct{})
		return Options{Bus: c.talk, Policies: s}
	}, func(t *testing.T, c *crowd) {
		for _, id := range []string{"s1", "s2", "s3", "s4", "s5"} {
			c.run(id, "agent")
		}
		s.changed <- struct{}{} // each host is looked at
		time.Sleep(time.Minute)
		if got := c.gone(); len(got) != 0 {
			t.Fatalf("before the host has said anything these are suspended: %v", got)
		}
		c.host(schemas.Host{Host: "h"})
		time.Sleep(time.Minute)
		if got := c.gone(); len(got) != 3 {
			t.Errorf("5 of 2: %v", got)
		}
	})
}

// Memory goes one by one, with a new word of the host in between.
func TestPressureOfMemory(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		for _, id := range []string{"s1", "s2", "s3"} {
			c.run(id, "agent")
		}
		time.Sleep(time.Minute)
		full := schemas.Host{Host: "h", Load: &schemas.HostLoad{MemoryBytes: 100, AvailableBytes: 5}}
		for n := range 2 {
			c.host(full)
			time.Sleep(3 * time.Second)
			if got := c.gone(); len(got) != n+1 || !strings.Contains(got[n], "95% of its memory in use") {
				t.Fatalf("the host said %d times that it is full: %v", n+1, got)
			}
			time.Sleep(time.Minute / 2)
			if got := c.gone(); len(got) != n+1 {
				t.Fatalf("more go though the host has said nothing since: %v", got)
			}
		}
		c.host(schemas.Host{Host: "h", Load: &schemas.HostLoad{MemoryBytes: 100, AvailableBytes: 50, Pressure: 0.5}})
		time.Sleep(3 * time.Second)
		if got := c.gone(); len(got) != 3 || !strings.Contains(got[2], "wait for memory 50% of the time") {
			t.Errorf("tasks wait for memory: %v", got)
		}
	})
}

// A full host makes room, for each who asks for it, and says for whom; where nothing may
// be suspended it says why.
func TestMakeRoom(t *testing.T) {
	inCrowd(t, func(t *testing.T, c *crowd) {
		c.run("a", "agent")
		c.run("b", "person")
		if got, release, err := c.MakeRoom(t.Context(), "h", schemas.Name{Tenant: "acme", Session: "new"}); err != nil || len(got) != 0 {
			t.Fatalf("a host without slots: %v, %v", got, err)
		} else {
			release(statekv.Revision{})
		}
		c.host(schemas.Host{Host: "h", Slots: 2})
		type answer struct {
			made    []schemas.Name
			release func(statekv.Revision)
			err     error
		}
		answers := make(chan answer, 2)
		for _, id := range []schemas.SessionID{"c", "d"} {
			go func() {
				var a answer
				a.made, a.release, a.err = c.MakeRoom(t.Context(), "h", schemas.Name{Tenant: "acme", Session: id})
				answers <- a
			}()
		}
		for range 60 {
			time.Sleep(time.Second / 2)
			c.gone()
		}
		first, second := <-answers, <-answers
		if first.err != nil || second.err != nil || len(first.made)+len(second.made) != 2 || c.state("a") != schemas.Suspended || c.state("b") != schemas.Suspended {
			t.Fatalf("room for two: %v %v, %v %v", first.made, first.err, second.made, second.err)
		}
		c.run("c", "agent")
		c.run("d", "agent")
		first.release(statekv.Revision{})
		second.release(statekv.Revision{})
		c.say("c", schemas.KindHold, "k", time.Hour)
		c.say("d", schemas.KindHold, "k", time.Hour)
		_, _, err := c.MakeRoom(t.Context(), "h", schemas.Name{Tenant: "acme", Session: "e"})
		var none *NoRoom
		if !errors.As(err, &none) || !strings.Contains(err.Error(), "acme/c: hold.k: tea; acme/d: hold.k: tea") {
			t.Errorf("nothing may be suspended: %v", err)
		}
	})
}
