package scheduler

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// rationed has every tenant's quota of running sessions.
type rationed struct {
	builtin
	mu      sync.Mutex
	most    int
	changed chan struct{}
}

func (r *rationed) Quota(schemas.Tenant) schemas.Quota {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.most
	return schemas.Quota{Running: &most}
}

func (r *rationed) set(most int) {
	r.mu.Lock()
	r.most = most
	r.mu.Unlock()
	r.changed <- struct{}{}
	synctest.Wait()
}

func (r *rationed) Changed() <-chan struct{} { return r.changed }

// hails is a talk that keeps events.
type hails struct {
	talk
	mu  sync.Mutex
	all []schemas.Event
}

func (h *hails) Event(_ context.Context, e schemas.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
	return nil
}

func (h *hails) events() []schemas.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

// inTenant runs a test with a quota.
func inTenant(t *testing.T, most int, do func(t *testing.T, c *crowd, r *rationed, h *hails)) {
	r, h := &rationed{most: most}, &hails{}
	inCrowdOf(t, func(c *crowd) Options {
		r.changed = make(chan struct{}, 1)
		h.talk = c.talk
		return Options{Policies: r, Bus: h}
	}, func(t *testing.T, c *crowd) { do(t, c, r, h) })
}

// sleeps makes a session that is suspended.
func (c *crowd) sleeps(id string) {
	n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}
	c.fake.Put(schemas.SessionRecord{
		UID: schemas.UID("uid" + id), Tenant: n.Tenant, Session: n.Session, State: schemas.Suspended, Class: "web", Host: "h",
		Idle: &schemas.Idle{Grace: time.Hour.Milliseconds()}, Head: &schemas.Head{Name: "acme/l/snaps/1-1", Digest: "d"},
	})
	synctest.Wait()
}

func (c *crowd) states(want map[string]schemas.State) {
	c.t.Helper()
	synctest.Wait()
	for id, s := range want {
		if got := c.state(id); got != s {
			c.t.Errorf("%s is %s, not %s", id, got, s)
		}
	}
}

// Activity that wakes a session above its tenant's quota has another of that tenant make
// room: the one that matters least, once it may, and no more of them than it takes.
func TestWakesMakeRoomWithinTheirQuota(t *testing.T) {
	inTenant(t, 2, func(t *testing.T, c *crowd, r *rationed, h *hails) {
		c.run("a", "agent")
		c.run("b", "person")
		c.sleeps("x")
		c.say("x", schemas.KindInput, "", 0)
		c.states(map[string]schemas.State{"a": schemas.Running, "b": schemas.Running, "x": schemas.Suspended})
		e, _, err := c.Explain(t.Context(), schemas.Name{Tenant: "acme", Session: "x"})
		if err != nil || !strings.Contains(e.Text, "it is to be resumed, and waits: of tenant acme, it has 2 sessions running, its quota is 2 (acme/a: ") || len(e.Blockers) != 1 {
			t.Errorf("x is explained by %+v, %v", e, err)
		}
		time.Sleep(yield + 2*time.Second)
		c.states(map[string]schemas.State{"a": schemas.Suspending, "b": schemas.Running, "x": schemas.Suspended})
		got := c.gone()
		c.states(map[string]schemas.State{"a": schemas.Suspended, "b": schemas.Running, "x": schemas.Resuming})
		if len(got) != 2 || !strings.HasPrefix(got[0], "tenant acme makes room for acme/x, it has 2 sessions running, its quota is 2: it matters least") {
			t.Errorf("%v", got)
		}
		if n := len(h.events()); n != 1 || !strings.Contains(h.events()[0].Text, "acme/x is used, and can't be resumed yet") {
			t.Errorf("%d events: %v", n, h.events())
		}
		time.Sleep(10 * time.Minute)
		if c.gone(); len(c.swapped()) != 2 {
			t.Errorf("more was done: %v", c.swapped())
		}
	})
}

// Where none may be suspended the wake waits: until one is, by any client, or the quota is
// raised, or it is wanted no more. First come, first served.
func TestWakesWaitForTheirQuota(t *testing.T) {
	inTenant(t, 1, func(t *testing.T, c *crowd, r *rationed, h *hails) {
		c.run("a", "agent")
		c.say("a", schemas.KindHold, "tea", 24*time.Hour)
		for _, id := range []string{"x", "y", "z"} {
			c.sleeps(id)
			c.say(id, schemas.KindInput, "", 0)
			c.say(id, schemas.KindInput, "", 0)
		}
		time.Sleep(time.Hour)
		if c.gone(); len(c.swapped()) != 0 || len(h.events()) != 3 || !strings.Contains(h.events()[0].Text, "acme/a: hold.tea: tea") {
			t.Fatalf("with a hold on the only one: %v; %v", c.swapped(), h.events())
		}
		end := func(id string) { // another client does something with it
			v, _ := c.fake.Get(t.Context(), schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)})
			v.State = schemas.Exited
			c.fake.Put(v.SessionRecord)
			synctest.Wait()
		}
		end("a")
		c.states(map[string]schemas.State{"x": schemas.Resuming, "y": schemas.Suspended, "z": schemas.Suspended})
		end("y") // it is wanted no more
		r.set(2)
		c.states(map[string]schemas.State{"x": schemas.Resuming, "y": schemas.Exited, "z": schemas.Resuming})
		if n := len(h.events()); n != 3 {
			t.Errorf("that they wait was said %d times", n)
		}
	})
}

// No room is made for those in the queue that are wanted no more, or are gone.
func TestNoRoomIsMadeForWhoIsGone(t *testing.T) {
	inTenant(t, 2, func(t *testing.T, c *crowd, r *rationed, h *hails) {
		c.run("a", "agent")
		c.run("b", "agent")
		for _, id := range []string{"x", "y", "z"} {
			c.sleeps(id)
			c.say(id, schemas.KindInput, "", 0)
		}
		for id, s := range map[string]schemas.State{"y": schemas.Exited, "z": schemas.Deleted} {
			v, _ := c.fake.Get(t.Context(), schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)})
			v.State = s
			c.fake.Put(v.SessionRecord)
		}
		time.Sleep(2 * yield)
		c.gone()
		c.states(map[string]schemas.State{"x": schemas.Resuming})
		time.Sleep(10 * time.Minute)
		if got := c.gone(); len(got) != 2 { // one makes room, and x is woken
			t.Errorf("for one session that is wanted: %q", got)
		}
	})
}

// A host that is gone makes no room: what was to leave it keeps no session from being woken.
func TestAHostThatIsGoneMakesNoRoom(t *testing.T) {
	inTenant(t, 2, func(t *testing.T, c *crowd, r *rationed, h *hails) {
		c.run("a", "agent")
		v, _ := c.fake.Get(t.Context(), schemas.Name{Tenant: "acme", Session: "a"})
		v.Host = "gone"
		c.fake.Put(v.SessionRecord)
		c.run("b", "person")
		c.sleeps("x")
		c.say("x", schemas.KindInput, "", 0)
		time.Sleep(stuckAfter)
		c.states(map[string]schemas.State{"a": schemas.Suspending, "b": schemas.Running, "x": schemas.Suspended})
		time.Sleep(stuckAfter)
		c.states(map[string]schemas.State{"a": schemas.Suspending, "b": schemas.Suspending, "x": schemas.Suspended})
	})
}

// A burst for all the sessions of a tenant wakes no more of them than its quota has room for,
// and one without a quota has none of that.
func TestABurstKeepsToTheQuota(t *testing.T) {
	inTenant(t, 3, func(t *testing.T, c *crowd, r *rationed, _ *hails) {
		ids := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
		for _, id := range ids {
			c.sleeps(id)
		}
		for _, id := range ids {
			c.say(id, schemas.KindInput, "", 0)
		}
		count := func() (n int) {
			synctest.Wait()
			for _, id := range ids {
				if c.state(id) == schemas.Resuming {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		if n := count(); n != 3 {
			t.Errorf("%d were woken, the quota is 3", n)
		}
		r.set(0)
		if n := count(); n != len(ids) {
			t.Errorf("%d of %d were woken without a quota", n, len(ids))
		}
	})
}

// Who is in line with a scheduler that rests is in line with it again when it acts again.
func TestQueuesAreMadeAgain(t *testing.T) {
	l := newLoop(New(Options{Policies: &rationed{most: 1}}))
	l.lag.hearing, l.agenda.open, l.table.heardSince = true, true, time.Now()
	one := seen(l, "a", "one", schemas.Running, nil, "person")
	two := seen(l, "a", "two", schemas.Suspended, nil, "person")
	first := l.quotas.admit(two)
	if again := l.quotas.admit(two); first || again || len(l.quotas.tenants["acme"].queue) != 1 {
		t.Error("the quota is 1, and one runs")
	}
	l.rest()
	if h := l.quotas.tenants["acme"]; len(l.quotas.queues) != 0 || len(h.queue) != 0 || h.waits(two) {
		t.Error("it rests, and sessions are in line")
	}
	l.listen(&session.Message{Source: schemas.Source{Name: two.name(), Kind: schemas.KindInput}, Seq: 7, At: time.Now()})
	if e := l.explain(two, time.Now()); !strings.Contains(e.Text, "and waits: of tenant acme, it has 1 session running, its quota is 1 (acme/one: ") {
		t.Errorf("who stands by explains it by %q", e.Text)
	}
	l.agenda.open = true
	if l.quotas.admit(two) {
		t.Error("it acts again, and the quota is forgotten")
	}
	l.rest()
	l.forget(one)
	if len(l.quotas.tenants) != 0 {
		t.Errorf("of a tenant of whom none runs remains %v", l.quotas.tenants)
	}
}
