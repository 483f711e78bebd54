package scheduler_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// ruled begins a scheduler that goes by the policies of the bucket.
func (b *bench) ruled() *policykv.Cache {
	b.t.Helper()
	store, err := policykv.Open(b.ctx, b.js, stream.NamesWith(""))
	b.must(err)
	c := policykv.NewCache(store, nil)
	b.must(c.Load(b.ctx))
	s := scheduler.New(scheduler.Options{
		JS: b.js, Names: stream.NamesWith(""), Records: b.records, Actor: "scheduler@h", Policies: c,
		Log: slog.New(slog.NewTextHandler(b.logged, nil)),
	})
	ctx, cancel := context.WithCancel(b.ctx)
	var wg sync.WaitGroup
	for _, serve := range []func(context.Context) error{s.Serve, c.Serve} {
		wg.Go(func() {
			if err := serve(ctx); err != nil {
				b.t.Errorf("it ended with %v", err)
			}
		})
	}
	b.scheduler = s
	b.stop = func() { b.stop = nil; cancel(); wg.Wait() }
	select {
	case <-s.Ready():
	case <-time.After(limit):
		b.t.Fatal("the scheduler isn't ready")
	}
	return c
}

func (b *bench) policy(c *policykv.Cache, scope schemas.PolicyScope, uid schemas.UID, texts ...string) {
	b.t.Helper()
	prev, err := c.Get(b.ctx, scope)
	b.must(err)
	doc := schemas.PolicyDocument{Scope: scope, UID: uid}
	for _, text := range texts {
		b.must(doc.Policy.Assign(text))
	}
	_, err = c.Set(b.ctx, prev, doc)
	b.must(err)
}

// event waits for an event of a session.
func (b *bench) event(n schemas.Name, kind string) (e schemas.Event) {
	b.t.Helper()
	s, err := b.js.Stream(b.ctx, stream.NamesWith("").Events())
	b.must(err)
	c, err := s.OrderedConsumer(b.ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{schemas.SubjectEvent + "." + n.Key() + "." + kind}})
	b.must(err)
	msg, err := c.Next(jetstream.FetchMaxWait(limit))
	b.must(err)
	b.must(json.Unmarshal(msg.Data(), &e))
	return e
}

// A policy that is changed holds at once, for sessions that there are.
func TestPolicyChangeIsDecidedOn(t *testing.T) {
	b := newBench(t)
	c := b.ruled()
	v := b.run(work, time.Hour)
	b.explained(work, func(e schemas.Explanation) bool { return e.GraceMS == time.Hour.Milliseconds() })
	b.policy(c, schemas.SessionScope(work), "another", "grace=100ms")
	b.policy(c, schemas.SessionScope(work), v.UID, "grace=2h")
	b.explained(work, func(e schemas.Explanation) bool { return e.GraceMS == 2*time.Hour.Milliseconds() })
	b.policy(c, schemas.SessionScope(work), v.UID, "grace=100ms")
	b.until(work, schemas.Suspending)
}

// Before a suspend it is said that it is near, once, and it isn't made any earlier.
func TestWarningGoesBefore(t *testing.T) {
	b := newBench(t)
	c := b.ruled()
	b.policy(c, schemas.ScopeAll, "", "warn=1s")
	b.run(work, grace)
	e := b.event(work, "warning")
	v := b.until(work, schemas.Suspending)
	if said := v.Transition.At.Sub(e.At); said < time.Second-50*time.Millisecond {
		t.Errorf("it was said %v before", said)
	}
	if e.Until.Sub(e.At) < 900*time.Millisecond || e.UID != v.UID || e.Actor != "scheduler@h" || !strings.Contains(e.Text, "is suspended in") {
		t.Errorf("%+v", e)
	}
	s, err := b.js.Stream(b.ctx, stream.NamesWith("").Events())
	b.must(err)
	info, err := s.Info(b.ctx, jetstream.WithSubjectFilter(schemas.SubjectEvent+".*.*.warning"))
	b.must(err)
	if n := info.State.Subjects[schemas.SubjectEvent+"."+work.Key()+".warning"]; n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// A question can be answered by all who may publish activity, and explain says so.
func TestQuestionIsAnswered(t *testing.T) {
	b := newBench(t)
	c := b.ruled()
	b.policy(c, schemas.ScopeAll, "", "ask=for:20s,defer:1h,times:1")
	b.run(work, grace)
	if e := b.event(work, "question"); !strings.Contains(e.Text, "diapause.v1.activity.default.work.hold.defer") {
		t.Errorf("%+v", e)
	}
	b.say(work, schemas.KindHold, schemas.AnswerKey, schemas.Activity{TTL: schemas.Duration(2 * time.Hour), Reason: "not now"})
	e := b.explained(work, func(e schemas.Explanation) bool {
		return len(e.Blockers) == 1 && strings.Contains(e.Blockers[0].What, "not now")
	})
	if left := time.Until(e.Blockers[0].Until); left > time.Hour {
		t.Errorf("the answer puts it off by %v", left)
	}
}

// Who ran for as long as he may is suspended, used or not, and the record says why.
func TestLife(t *testing.T) {
	b := newBench(t)
	p, _ := session.PolicyFor("web", nil)
	p.Life = grace
	p.Grace = grace
	b.say(work, schemas.KindInput, "", schemas.Activity{})
	s := scheduler.New(scheduler.Options{JS: b.js, Names: stream.NamesWith(""), Records: b.records, Policies: same{p}})
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	b.stop = func() { b.stop = nil; cancel(); b.must(<-done) }
	<-s.Ready()
	b.scheduler = s
	b.run(work, 5*time.Second)
	for used := true; used; { // as it is all the time
		e := b.explained(work, func(e schemas.Explanation) bool {
			return e.State == schemas.Suspending || e.State == schemas.Running && e.IdleSeconds > 0.1
		})
		if used = e.State == schemas.Running; used {
			b.say(work, schemas.KindInput, "", schemas.Activity{})
		}
	}
	v := b.until(work, schemas.Suspending)
	if v.Op.Trigger != "expired" || !strings.HasPrefix(v.Transition.Reason, "expired") || !v.Op.Idle {
		t.Errorf("op %+v, reason %s", v.Op, v.Transition.Reason)
	}
}

// same is one policy for all.
type same struct{ p session.Policy }

func (s same) For(r schemas.SessionRecord) session.Policy { return s.p.Ruled(r.Idle) }
func (same) Changed() <-chan struct{}                     { return nil }

// What a policy would do is told, and nothing is done.
func TestTry(t *testing.T) {
	b := newBench(t)
	c := b.ruled()
	other := schemas.Name{Tenant: "acme", Session: "other"}
	held := schemas.Name{Tenant: "acme", Session: "held"}
	for _, n := range []schemas.Name{work, other, held} {
		b.run(n, time.Hour)
	}
	b.say(held, schemas.KindHold, "h", schemas.Activity{TTL: schemas.Duration(2 * time.Hour)}) // beyond both graces
	b.explained(held, func(e schemas.Explanation) bool { return len(e.Blockers) == 2 })
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > 0.3 })
	trial := func(r schemas.SessionRecord) session.Policy {
		p := c.For(r)
		p.Grace = 100 * time.Millisecond
		return p
	}
	out, err := b.scheduler.Try(b.ctx, func(r schemas.SessionRecord) bool { return r.Name() != other }, trial)
	b.must(err)
	if out.Tested != 2 || out.Changed != 1 || out.Suspends != 1 || len(out.Sessions) != 2 {
		t.Fatalf("%+v", out)
	}
	if first := out.Sessions[0]; first.Name != "work" || !strings.HasPrefix(first.Would, "suspend") || !strings.HasPrefix(first.Now, "leave") {
		t.Errorf("%+v", first)
	}
	if e := b.explained(work, func(schemas.Explanation) bool { return true }); e.State != schemas.Running {
		t.Errorf("it is %s", e.State)
	}
}

// Silences are told while they last.
func TestSilences(t *testing.T) {
	b := newBench(t)
	b.ruled()
	b.run(work, time.Hour)
	b.say(work, schemas.KindInput, "", schemas.Activity{})
	b.explained(work, func(e schemas.Explanation) bool { return e.LastUse == "input" && e.IdleSeconds > 0.2 })
	all, err := b.scheduler.Silences(b.ctx, func(schemas.SessionRecord) bool { return true })
	b.must(err)
	if i := slices.IndexFunc(all, func(s schemas.Silence) bool { return s.Name == "work" }); len(all) != 1 || i != 0 || all[0].To-all[0].From < 200 {
		t.Errorf("%+v", all)
	}
	var pages []schemas.UseHistory
	for deadline := time.Now().Add(limit); len(pages) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b.must(stream.ReadUseHistory(b.ctx, b.js, stream.NamesWith(""), time.Now().Add(-time.Hour), func(d schemas.UseHistory) { pages = append(pages, d) }))
	}
	if len(pages) == 0 || pages[0].Writer == "" || pages[0].Since.IsZero() {
		t.Errorf("the use history begins with %+v", pages)
	}
}
