package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// grace is that of the sessions here. What has to happen before its end is done
// at once, so a slow machine only makes a test that must fail pass.
const grace = 400 * time.Millisecond

var work = schemas.Name{Tenant: "default", Session: "work"}

// bench is a server and, from time to time, a scheduler.
type bench struct {
	t         *testing.T
	ctx       context.Context
	nc        *nats.Conn
	js        jetstream.JetStream
	records   *statekv.Store
	publish   stream.Publisher
	server    *server.Server
	logged    *lines
	scheduler *scheduler.Scheduler
	stop      func()
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(cancel)
	srv := natstest.Serve(t)
	b := &bench{t: t, ctx: ctx, server: srv, logged: &lines{}}
	var err error
	b.nc, err = nats.Connect(srv.ClientURL(), nats.ReconnectWait(10*time.Millisecond))
	b.must(err)
	t.Cleanup(b.nc.Close)
	b.js, err = jetstream.New(b.nc)
	b.must(err)
	b.publish = stream.Publisher{JS: b.js}
	b.must(stream.Ensure(ctx, b.js, stream.NamesWith(""), 1))
	b.records, err = statekv.Open(ctx, b.js, stream.NamesWith(""))
	b.must(err)
	t.Cleanup(func() { b.end() })
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// begin runs a scheduler until end or the end of the test.
func (b *bench) begin() {
	b.t.Helper()
	s := scheduler.New(scheduler.Options{
		JS: b.js, Names: stream.NamesWith(""), Records: b.records, Actor: "scheduler@h",
		Log: slog.New(slog.NewTextHandler(b.logged, nil)),
	})
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	select {
	case <-s.Ready():
	case <-time.After(limit):
		cancel()
		b.t.Fatal("the scheduler isn't ready")
	}
	b.scheduler = s
	b.stop = func() {
		b.stop = nil
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the scheduler ended with %v", err)
		}
	}
}

func (b *bench) end() {
	if b.stop != nil {
		b.stop()
	}
}

func (b *bench) change(n schemas.Name, t schemas.Transition) statekv.Versioned {
	b.t.Helper()
	v, err := b.records.Update(b.ctx, n, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return t, true, nil })
	b.must(err)
	return v
}

// run makes a running session, as the API and a worker would.
func (b *bench) run(n schemas.Name, g time.Duration) statekv.Versioned {
	b.t.Helper()
	seq, err := stream.LastActivity(b.ctx, b.js, stream.NamesWith(""))
	b.must(err)
	b.change(n, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: nuid.Next(), Kind: schemas.OpStart}, Idle: &schemas.Idle{Grace: g.Milliseconds()},
		New: &schemas.NewSession{UID: schemas.UID(nuid.Next()), Tenant: n.Tenant, Session: n.Session, Class: "web", Lineage: "l", Born: seq},
	}})
	return b.change(n, schemas.Transition{Type: schemas.TStarted})
}

// suspended carries out a suspend as a worker would.
func (b *bench) suspended(n schemas.Name) statekv.Versioned {
	b.t.Helper()
	b.change(n, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: "default/l/snaps/1-1", Digest: "d"}}})
	return b.change(n, schemas.Transition{Type: schemas.TReaped})
}

func (b *bench) say(n schemas.Name, k schemas.Kind, key string, a schemas.Activity) time.Time {
	b.t.Helper()
	_, err := b.publish.Activity(b.ctx, n, k, key, a)
	b.must(err)
	return time.Now()
}

// until waits for a state; within limit it has to come.
func (b *bench) until(n schemas.Name, want schemas.State) statekv.Versioned {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, limit)
	defer stop()
	var got, last statekv.Versioned
	err := b.records.Watch(ctx, func(v statekv.Versioned) {
		if v.Name() == n && got.UID == "" {
			if last = v; v.State == want {
				got = v
				stop()
			}
		}
	}, func() {})
	b.must(err)
	if got.UID == "" {
		b.t.Fatalf("session %s is %s, not %s", n, last.State, want)
	}
	return got
}

// explained waits until the scheduler's words on a session are as wanted.
func (b *bench) explained(n schemas.Name, ok func(schemas.Explanation) bool) schemas.Explanation {
	b.t.Helper()
	var e schemas.Explanation
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var known bool
		var err error
		if e, known, err = b.scheduler.Explain(b.ctx, n); err != nil {
			b.t.Fatal(err)
		}
		if known && ok(e) {
			return e
		}
	}
	b.t.Fatalf("session %s is explained by %+v", n, e)
	return e
}

func TestSuspendsAtTheEndOfTheGrace(t *testing.T) {
	b := newBench(t)
	b.begin()
	began := time.Now()
	b.run(work, grace)
	v := b.until(work, schemas.Suspending)
	if took := time.Since(began); took < grace {
		t.Errorf("suspended after %v, before the grace of %v", took, grace)
	}
	e := v.Transition.Evidence
	if v.Op == nil || !v.Op.Idle || v.Op.Kind != schemas.OpSuspend || e == nil || e.GraceMS != grace.Milliseconds() || e.IdleMS < e.GraceMS || v.Transition.Actor != "scheduler@h" {
		t.Errorf("op %+v, evidence %+v", v.Op, e)
	}
	msg, err := b.js.Stream(b.ctx, stream.NamesWith("").Commands())
	b.must(err)
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) { // it follows the record
		_, err := msg.GetLastMsgForSubject(b.ctx, "diapause.v1.command.h.default.work")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the host has no command: %v", err)
		}
	}
}

func TestActivityRestartsTheGrace(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, grace)
	var last time.Time
	for range 3 {
		b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > grace.Seconds()/3 })
		last = b.say(work, schemas.KindInput, "", schemas.Activity{})
	}
	b.until(work, schemas.Suspending)
	if quiet := time.Since(last); quiet < grace {
		t.Errorf("suspended %v after input, the grace is %v", quiet, grace)
	}
}

func TestHold(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, grace)
	b.say(work, schemas.KindHold, "tea", schemas.Activity{TTL: schemas.Duration(time.Hour), Reason: "tea"})
	e := b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > 2*grace.Seconds() })
	if e.State != schemas.Running || len(e.Blockers) != 1 || !strings.Contains(e.Blockers[0].What, "tea") {
		t.Errorf("%s, blocked by %v", e.State, e.Blockers)
	}
	b.say(work, schemas.KindHold, "tea", schemas.Activity{Released: true})
	b.until(work, schemas.Suspending)
}

func TestWakes(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.say(work, schemas.KindInput, "", schemas.Activity{}) // of an earlier session
	b.run(work, grace)
	b.until(work, schemas.Suspending)
	v := b.suspended(work)
	b.say(work, schemas.KindHeartbeat, "", schemas.Activity{})
	b.say(work, schemas.KindHTTP, "", schemas.Activity{Intent: schemas.IntentReconnect})
	b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Suspended })
	if _, err := b.js.Publish(b.ctx, schemas.ActivitySubject(work, schemas.KindInput, ""), nil); err != nil {
		t.Fatal(err)
	}
	got := b.until(work, schemas.Resuming)
	if got.Version != v.Version+1 || got.Op.Source == nil || *got.Op.Source != *v.Head || got.Op.Boot != "resume" || got.Transition.Evidence.Activity != "input" {
		t.Errorf("version %d after %d, op %+v, evidence %+v", got.Version, v.Version, got.Op, got.Transition.Evidence)
	}
}

// What was published while no scheduler listened is heard, and nothing was idle
// meanwhile.
func TestRestart(t *testing.T) {
	b := newBench(t)
	other := schemas.Name{Tenant: "acme", Session: "other"}
	held := schemas.Name{Tenant: "acme", Session: "held"}
	b.run(work, time.Millisecond)
	b.change(work, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "x"}}})
	b.suspended(work)
	b.run(other, grace)
	b.run(held, grace)
	b.say(work, schemas.KindExec, "", schemas.Activity{})
	b.say(held, schemas.KindHold, "h", schemas.Activity{TTL: schemas.Duration(time.Hour)})
	b.begin()
	began := time.Now()
	b.until(work, schemas.Resuming)
	b.until(other, schemas.Suspending)
	if took := time.Since(began); took < grace-50*time.Millisecond {
		t.Errorf("suspended %v after the scheduler began, the grace is %v", took, grace)
	}
	b.end()
	b.begin()
	e := b.explained(held, func(e schemas.Explanation) bool { return e.IdleSeconds > 2*grace.Seconds() })
	if e.State != schemas.Running || len(e.Blockers) != 1 {
		t.Errorf("held, and restarted: %s, blocked by %v", e.State, e.Blockers)
	}
}

// A reused name: what was said of the last session of it is not known later than
// the decision on the new one.
func TestReusedNameIsSuspendedOnItsOwnEvidence(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.say(work, schemas.KindInput, "", schemas.Activity{})
	v := b.run(work, grace)
	got := b.until(work, schemas.Suspending)
	if v.Born == 0 || got.Op.Seq < v.Born {
		t.Errorf("born at %d, suspended on what was known at %d", v.Born, got.Op.Seq)
	}
}

// After the connection was lost every grace starts again.
func TestLostConnectionRestartsTheGrace(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, time.Hour)
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > 0.5 })
	b.sever()
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds < 0.4 })
	b.counted(func(i schemas.Intake) bool { return i.Gaps == 1 })
}

// sever ends the connections by which the scheduler hears activity. The server takes them again.
func (b *bench) sever() {
	b.t.Helper()
	all, err := b.server.Connz(nil)
	b.must(err)
	own, err := b.nc.GetClientID()
	b.must(err)
	for _, c := range all.Conns {
		if c.Cid == own {
			continue
		}
		b.must(b.server.DisconnectClientByID(c.Cid))
	}
}

// What is overdue at the same moment goes a few at a time on each host, and a host
// whose suspends don't end holds up no other.
func TestOverdueSuspendsArePaced(t *testing.T) {
	b := newBench(t)
	const all = 24
	for i := range all {
		b.run(schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}, time.Millisecond)
	}
	b.begin()
	suspending := func() (out []schemas.Name) {
		records, err := b.records.All(b.ctx)
		b.must(err)
		for _, v := range records {
			if v.State == schemas.Suspending {
				out = append(out, v.Name())
			}
		}
		return out
	}
	for done := 0; done < all; {
		now := suspending()
		if len(now) > 8 {
			t.Fatalf("%d suspends are under way on one host", len(now))
		}
		for _, n := range now {
			b.suspended(n)
			done++
		}
	}
}

// Strangers publish what they like: sessions that don't exist, and nonsense. It
// costs no session its suspend, and hardly any space in the log.
func TestStrangers(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, grace)
	for i := range 3000 {
		n := schemas.Name{Tenant: "x", Session: schemas.SessionID(fmt.Sprint("s", i))}
		b.must(b.nc.Publish(schemas.ActivitySubject(n, schemas.KindHold, "h"), nil))
		b.must(b.nc.Publish(schemas.SubjectActivity+".x.y.nonsense", nil))
	}
	b.until(work, schemas.Suspending)
	b.say(work, schemas.KindInput, "", schemas.Activity{})
	b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Suspending })
	if n := b.logged.with("not activity"); n > 2 {
		t.Errorf("nonsense was logged %d times", n)
	}
}

// A record that can't be changed isn't tried in a circle.
func TestRefusedSwapsArePaced(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, grace)
	// The bucket takes nothing more.
	s, err := b.js.Stream(b.ctx, stream.NamesWith("").SessionStream())
	b.must(err)
	cfg := s.CachedInfo().Config
	size := cfg.MaxMsgSize
	cfg.MaxMsgSize = 10
	_, err = b.js.UpdateStream(b.ctx, cfg)
	b.must(err)
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > (grace + 2500*time.Millisecond).Seconds() })
	if n := b.logged.with("decision not recorded"); n == 0 || n > 5 {
		t.Errorf("it was tried %d times", n)
	}
	cfg.MaxMsgSize = size
	_, err = b.js.UpdateStream(b.ctx, cfg)
	b.must(err)
	b.until(work, schemas.Suspending)
}

// What decides and what explains is one function.
func TestExplain(t *testing.T) {
	b := newBench(t)
	b.begin()
	if _, known, err := b.scheduler.Explain(b.ctx, work); known || err != nil {
		t.Errorf("a session that isn't there is explained, %v", err)
	}
	b.run(work, time.Hour)
	e := b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Running })
	if e.GraceMS != time.Hour.Milliseconds() || e.Next.IsZero() || !strings.Contains(e.Text, "it is suspended in") {
		t.Errorf("%+v", e)
	}
	if idle, err := b.scheduler.Idle(b.ctx); err != nil || len(idle) != 1 {
		t.Errorf("idle times %v, %v", idle, err)
	}
	if p, ok := session.PolicyFor("web", nil); !ok || p.Grace == 0 {
		t.Error("no policy for the class web")
	}
}
