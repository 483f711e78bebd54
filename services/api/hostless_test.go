package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
)

// A terminal waits where no host has room, with its place and the reason, and comes to a host when one has: in the
// order in which they came.
func TestTerminalWaitsForRoom(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	s, _ := y.api("a")
	y.mustRun(s, "first", schemas.Running)
	v := y.mustRun(s, "second", schemas.Starting)
	if v.Queue == nil || v.Queue.Standing() != "1st of 1" || v.Queue.Limit != schemas.LimitRoom || !strings.Contains(v.Queue.Reason, "host h has no room") || v.Host != "" {
		t.Errorf("it waits as %+v on host %q", v.Queue, v.Host)
	}
	y.mustRun(s, "third", schemas.Starting)
	y.standing(s, "third", "2nd of 2")
	var out any
	var err error
	y.waitFor("the scheduler to know it", func() bool { // it reads the records for itself
		out, err = s.Call(y.ctx, operator, "explain", schemas.Request{Name: "third"})
		return err == nil
	})
	e := out.(schemas.Explanation)
	if len(e.Blockers) != 1 || e.Blockers[0].Kind != schemas.WaitingRoom || !strings.Contains(e.Text, "it waits for room on a host: it is 2nd of 2") {
		t.Errorf("explained by %q %+v", e.Text, e.Blockers)
	}
	if n := s.Queued(); n != 2 {
		t.Errorf("%d are counted", n)
	}
	for _, verb := range []string{"suspend", "ensure", "checkpoint", "resume", "move"} {
		if _, err := s.Call(y.ctx, operator, verb, schemas.Request{Name: "third"}); schemas.ReasonOf(err) != schemas.ReasonNoRoom || !strings.Contains(err.Error(), "waits for room") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	_, err = s.Call(y.ctx, operator, "label", schemas.Request{Name: "third", Label: &schemas.LabelRequest{Labels: map[string]string{"a": "b"}}})
	y.must(err)
	for _, refused := range []func(*schemas.RunRequest){noWait, withoutTerminal} {
		if _, err := y.runs(s, "refused", refused); schemas.ReasonOf(err) != schemas.ReasonNoRoom {
			t.Errorf("one that doesn't wait: %v", err)
		}
	}
	_, err = s.Call(y.ctx, operator, "kill", schemas.Request{Name: "first"})
	y.must(err)
	y.becomes(s, "second", "running", isRunning)
	y.standing(s, "third", "1st of 1")
	y.host("h", 2)
	v = y.becomes(s, "third", "running", isRunning)
	if v.Labels["a"] != "b" || v.Host != "h" {
		t.Errorf("it came to host %s with the labels %v", v.Host, v.Labels)
	}
	y.sound(3)
}

// What needs another host isn't held up by those that wait, and a host that is asked for is waited for.
func TestOthersAreNotHeldUp(t *testing.T) {
	y := newYard(t)
	y.host("a", 1)
	y.host("b", 1)
	s, _ := y.api("one")
	on := func(h schemas.HostID) func(*schemas.RunRequest) { return func(r *schemas.RunRequest) { r.Host = h } }
	y.mustRun(s, "first", schemas.Running, on("a"))
	y.mustRun(s, "second", schemas.Starting, on("a"))
	if v := y.mustRun(s, "third", schemas.Running); v.Host != "b" {
		t.Errorf("it runs on host %s", v.Host)
	}
	y.mustRun(s, "fourth", schemas.Starting, on("b"))
	_, err := s.Call(y.ctx, operator, "kill", schemas.Request{Name: "third"})
	y.must(err)
	if v := y.becomes(s, "fourth", "running", isRunning); v.Host != "b" {
		t.Errorf("it came to host %s", v.Host)
	}
	y.standing(s, "second", "1st of 1")
	if _, err := y.runs(s, "refused", func(r *schemas.RunRequest) { r.Host = "nowhere" }); schemas.ReasonOf(err) != schemas.ReasonNoHost {
		t.Errorf("on a host that isn't there: %v", err)
	}
	y.sound(3)
}

// One that waits is removed without any host; a removal that was left half done is ended, by another server too.
func TestQueuedIsRemoved(t *testing.T) {
	for verb, req := range map[string]schemas.Request{"rm": {Name: "waits", Shred: true}, "kill": {Name: "waits"}} {
		t.Run(verb, func(t *testing.T) {
			y := newYard(t)
			y.host("h", 1)
			s, _ := y.api("a")
			y.mustRun(s, "first", schemas.Running)
			y.mustRun(s, "waits", schemas.Starting)
			_, err := s.Call(y.ctx, operator, verb, req)
			y.must(err)
			v, err := y.records.Get(y.ctx, schemas.Name{Tenant: "default", Session: "waits"})
			y.must(err)
			if v.State != schemas.Deleted || v.Op != nil {
				t.Errorf("it is %s with the op %+v", v.State, v.Op)
			}
			y.mustRun(s, "waits", schemas.Starting) // the name is free
			y.sound(1)
		})
	}
}

func TestHalfRemovedIsTidied(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	points := failpoint.New()
	s, stop := y.api("a", func(o *Options) { o.Failpoints = points })
	y.mustRun(s, "first", schemas.Running)
	y.mustRun(s, "waits", schemas.Starting)
	y.must(points.Arm(failpoint.APIRecorded, points.Reached(failpoint.APIRecorded)+1, fails))
	if _, err := s.Call(y.ctx, operator, "rm", schemas.Request{Name: "waits"}); err == nil {
		t.Error("the removal didn't fail")
	}
	stop()
	other, _ := y.api("b")
	y.waitFor("the end of the removal", func() bool {
		v, err := y.records.Get(y.ctx, schemas.Name{Tenant: "default", Session: "waits"})
		y.must(err)
		return v.State == schemas.Deleted && v.Op == nil
	})
	y.mustRun(other, "waits", schemas.Starting)
	y.sound(1)
}

// A server that stops with sessions waiting leaves them to another, which starts each once: also where both place.
func TestAnotherServerGoesOn(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	a, stop := y.api("a")
	b, _ := y.api("b")
	y.mustRun(a, "first", schemas.Running)
	var want []schemas.SessionID
	for i := range 5 {
		name := fmt.Sprintf("waits%d", i)
		y.mustRun([]*Server{a, b}[i%2], name, schemas.Starting)
		want = append(want, schemas.SessionID(name))
		for _, s := range []*Server{a, b} { // each has seen it before the next one comes
			y.standing(s, name, fmt.Sprintf("%s of %d", []string{"1st", "2nd", "3rd", "4th", "5th"}[i], i+1))
		}
	}
	y.host("h", 2)
	y.becomes(b, "waits0", "running", isRunning)
	stop()
	y.host("h", 6)
	for _, name := range want {
		y.becomes(b, string(name), "running", isRunning)
	}
	y.sound(6)
	y.mu.Lock()
	defer y.mu.Unlock()
	for i, name := range want {
		if y.order[i+1] != name {
			t.Errorf("they were started in the order %v", y.order)
			break
		}
	}
}

// Two servers that both believe that they act start each session once.
func TestTwoThatPlace(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	both := func(o *Options) { o.QueueLead = nil }
	a, _ := y.api("a", both)
	b, _ := y.api("b", both)
	y.mustRun(a, "first", schemas.Running)
	for i := range 6 {
		y.mustRun(a, fmt.Sprintf("waits%d", i), schemas.Starting)
	}
	y.host("h", 7)
	for i := range 6 {
		y.becomes(b, fmt.Sprintf("waits%d", i), "running", isRunning)
	}
	y.sound(7)
}

// A placement that fails before or after its record is changed leaves the session waiting, or started once.
func TestPlacementFails(t *testing.T) {
	for _, at := range []failpoint.Name{failpoint.APIAsked, failpoint.APIRecorded, failpoint.APICommanded} {
		t.Run(string(at), func(t *testing.T) {
			y := newYard(t)
			y.host("h", 1)
			points := failpoint.New()
			s, stop := y.api("a", func(o *Options) { o.Failpoints = points })
			y.mustRun(s, "first", schemas.Running)
			y.mustRun(s, "waits", schemas.Starting)
			tried := points.Reached(at) + 1
			y.must(points.Arm(at, tried, fails))
			y.host("h", 2)
			y.waitFor("the try", func() bool { return points.Reached(at) >= tried })
			stop()
			other, _ := y.api("b")
			y.becomes(other, "waits", "running", isRunning)
			y.sound(2)
		})
	}
}

// Nothing comes to a host that hasn't said how much room it has.
func TestNothingIsPlacedUnheard(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	s, stop := y.api("a")
	y.mustRun(s, "first", schemas.Running)
	y.mustRun(s, "waits", schemas.Starting)
	stop()
	silent := &unheard{said: make(chan schemas.Host)}
	names := stream.NamesWith("")
	sched := scheduler.New(scheduler.Options{JS: y.js, Names: names, Records: y.records, Actor: "scheduler@b", Lead: idleLead{}, Hosts: silent})
	y.background(sched.Serve)
	b, _ := y.api("b", func(o *Options) { o.Scheduler = sched })
	<-sched.Ready()
	v := y.standing(b, "waits", "1st of 1")
	if !strings.Contains(v.Queue.Reason, "hasn't said yet how much room it has") {
		t.Errorf("it waits: %s", v.Queue.Reason)
	}
	silent.said <- schemas.Host{Host: "h", Slots: 2}
	y.becomes(b, "waits", "running", isRunning)
	y.sound(2)
}

// unheard are hosts that say what a test has them say.
type unheard struct{ said chan schemas.Host }

func (u *unheard) Hosts(ctx context.Context, fn func(schemas.Host)) error {
	for {
		select {
		case h := <-u.said:
			fn(h)
		case <-ctx.Done():
			return nil
		}
	}
}

// A host of which no session leaves doesn't hold up the others, and no second session is evicted there for the same.
func TestSlowHostHoldsUpNothing(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	s, _ := y.api("a")
	y.mu.Lock()
	y.stuck["h"] = true
	y.mu.Unlock()
	y.mustRun(s, "first", schemas.Running, func(r *schemas.RunRequest) { r.Idle = &schemas.Idle{Grace: 1} })
	out, err := s.Call(y.ctx, operator, "run", schemas.Request{Name: "waits", Wait: schemas.Duration(30 * time.Second), Run: &schemas.RunRequest{
		Driver: "criu", Program: "bash", TTY: true, Idle: never, Host: "h", Spec: []byte(`{"command":["bash"],"tty":true}`),
	}})
	y.must(err)
	if v := out.(schemas.View); v.State != schemas.Starting || v.Queue == nil {
		t.Errorf("it is %+v", v)
	}
	leaves := func(v schemas.View) bool { return v.State == schemas.Suspending }
	y.becomes(s, "first", "on its way out", leaves)

	y.host("b", 1)
	on := func(r *schemas.RunRequest) { r.Host = "b" }
	y.mustRun(s, "second", schemas.Running, on)
	y.mustRun(s, "third", schemas.Starting, on)
	at := time.Now()
	_, err = s.Call(y.ctx, operator, "kill", schemas.Request{Name: "second"})
	y.must(err)
	y.becomes(s, "third", "running", isRunning)
	if took := time.Since(at); took > 45*time.Second { // a try may take as long as placeWithin
		t.Errorf("it came to host b after %s", took)
	}
	y.becomes(s, "first", "on its way out", leaves)

	v, err := y.records.Get(y.ctx, schemas.Name{Tenant: "default", Session: "first"})
	y.must(err)
	y.mu.Lock()
	y.stuck["h"] = false
	y.mu.Unlock()
	y.work(y.ctx, v)
	y.becomes(s, "waits", "running", isRunning)
	y.sound(4)
}

// Within a round the hosts are listed again when the list is old: one may have been cordoned, or be gone.
func TestHostsAreListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &growing{}
		l := listing{fleet: f}
		for i, want := range []int{1, 1, 2, 3} {
			hosts, err := l.recent(t.Context())
			if err != nil || f.times != want || len(hosts) != want {
				t.Errorf("%d: listed %d times, want %d: %v, %v", i, f.times, want, hosts, err)
			}
			time.Sleep([]time.Duration{listedFor, 1, listedFor + 1, 0}[i])
		}
	})
}

// growing is a fleet that has one more host each time that it is asked.
type growing struct {
	Fleet
	times int
}

func (g *growing) Hosts(context.Context) ([]fleet.Host, error) {
	g.times++
	return make([]fleet.Host, g.times), nil
}

// A reason names no session of another tenant.
func TestReasonNamesNoOthers(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	s, _ := y.api("a")
	y.mustRun(s, "other/secret", schemas.Running)
	y.mustRun(s, "acme/waits", schemas.Starting)
	for by, knows := range map[*Caller]bool{{Identity: "gateway", Tenant: "acme", Role: RoleOwner}: false, &operator: true} {
		for _, verb := range []string{"show", "list", "explain"} {
			req := schemas.Request{Name: "acme/waits"}
			if verb == "list" {
				req.Name = ""
			}
			out, err := s.Call(y.ctx, *by, verb, req)
			y.must(err)
			text, err := json.Marshal(out)
			y.must(err)
			if strings.Contains(string(text), "no room") && strings.Contains(string(text), "other/secret: ") != knows {
				t.Errorf("%s: %s", verb, text)
			}
			if !strings.Contains(string(text), "host h has no room") {
				t.Errorf("%s says no reason: %s", verb, text)
			}
		}
	}
}

// While none waits nothing is held: no lease is written.
func TestEmptyQueueHoldsNothing(t *testing.T) {
	y := newYard(t)
	y.host("h", 1)
	lead := &counting{Lead: y.office("a"), served: make(chan bool, 8)}
	s, _ := y.api("a", func(o *Options) { o.QueueLead = lead })
	y.mustRun(s, "first", schemas.Running)
	select {
	case <-lead.served:
		t.Fatal("the office is served with nothing in the queue")
	default:
	}
	y.mustRun(s, "waits", schemas.Starting)
	if !<-lead.served {
		t.Error("the office isn't served")
	}
	_, err := s.Call(y.ctx, operator, "rm", schemas.Request{Name: "waits"})
	y.must(err)
	select {
	case served := <-lead.served:
		if served {
			t.Error("it is served again")
		}
	case <-y.ctx.Done():
		t.Error("it is served on with nothing in the queue")
	}
}

// counting tells when a lead is served, and when no more.
type counting struct {
	Lead
	served chan bool
}

func (c *counting) Serve(ctx context.Context, tell func(bool)) error {
	c.served <- true
	defer func() { c.served <- false }()
	return c.Lead.Serve(ctx, tell)
}
