package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/triggers"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

var agent = schemas.Name{Tenant: "acme", Session: "agent"}

// bench is a server with one session, whose worker the test is.
type bench struct {
	*testing.T
	ctx     context.Context
	nc      *nats.Conn
	js      jetstream.JetStream
	records *statekv.Store
	server  *Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx}
	b.js = natstest.Streams(t)
	b.nc = b.js.Conn()
	var err error
	b.records, err = statekv.Open(ctx, b.js, stream.NamesWith(""))
	b.must(err)
	b.server = b.serve()
	return b
}

// serve runs one more server until the test ends.
func (b *bench) serve() *Server {
	b.Helper()
	s := New(Options{NC: b.nc, JS: b.js, Names: stream.NamesWith(""), Records: b.records, Version: "1.0.0"})
	ctx, stop := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			b.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case <-b.ctx.Done():
		b.Fatal("the server doesn't get ready")
	}
	return s
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// swap makes a transition as the worker would.
func (b *bench) swap(v statekv.Versioned, t schemas.TransitionType, set schemas.Set, stages ...schemas.Stage) statekv.Versioned {
	b.Helper()
	tr := schemas.Transition{Type: t, Set: set, Actor: "worker@h", Reason: "a test", Stages: stages}
	if v.Op != nil {
		tr.Op = v.Op.ID
	}
	v, err := b.records.Swap(b.ctx, v, tr)
	b.must(err)
	return v
}

func (b *bench) starting() statekv.Versioned {
	b.Helper()
	return b.swap(statekv.Versioned{}, schemas.TRun, schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: "u", Tenant: agent.Tenant, Session: agent.Session, Class: "web", Lineage: "u", Born: 3},
	})
}

func (b *bench) running() statekv.Versioned {
	b.Helper()
	return b.swap(b.starting(), schemas.TStarted, schemas.Set{})
}

// until waits for the record to be as ok says.
func (b *bench) until(what string, ok func(statekv.Versioned) bool) statekv.Versioned {
	b.Helper()
	for {
		v, err := b.records.Get(b.ctx, agent)
		b.must(err)
		if ok(v) {
			return v
		}
		select {
		case <-b.ctx.Done():
			b.Fatalf("waited in vain for %s: %+v", what, v.SessionRecord)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type result struct {
	triggers.Outcome
	err error
}

// ask has a server make a checkpoint.
func (b *bench) ask(s *Server, seq uint64) <-chan result {
	ch := make(chan result, 1)
	go func() {
		o, err := s.Checkpoint(b.ctx, triggers.Ask{Name: agent, Trigger: schemas.TriggerBefore, Action: "deploy", RunID: "r-1", Text: "to the stage", By: "coder", Seq: seq, Skipped: 2})
		ch <- result{o, err}
	}()
	return ch
}

func capturing(v statekv.Versioned) bool { return v.Op != nil && v.Op.Kind == schemas.OpCheckpoint }

func TestTriggeredCheckpoint(t *testing.T) {
	b := newBench(t)
	b.running()
	got := b.ask(b.server, 10)
	v := b.until("a checkpoint", capturing)
	if v.Op.Trigger != "before" || v.Op.RunID != "r-1" || v.Op.Description != "deploy: to the stage" || v.Op.TriggerSeq != 10 || v.Triggered != 10 {
		t.Errorf("op %+v, triggered %d", v.Op, v.Triggered)
	}
	if tr := v.Transition; tr.Actor != "agent:coder" || tr.Reason != "an agent says before deploy, run r-1 (2 before it were skipped: there was no time for them)" {
		t.Errorf("transition by %q: %q", tr.Actor, tr.Reason)
	}
	v = b.swap(v, schemas.TClaimed, schemas.Set{Claim: "c"})
	b.swap(v, schemas.TCheckpointed, schemas.Set{Head: &schemas.Head{Name: "a"}}, schemas.Stage{Name: "frozen", MS: 40})
	if r := <-got; r.err != nil || r.Word != triggers.Done || r.Frozen != 40*time.Millisecond {
		t.Errorf("it came to %+v", r)
	}
	// The same again, and one from before: nothing is done.
	for _, seq := range []uint64{10, 9, 3} {
		if r := <-b.ask(b.server, seq); r.err != nil || r.Word != triggers.Taken {
			t.Errorf("sequence %d once more: %+v", seq, r)
		}
	}
	got = b.ask(b.server, 11)
	v = b.until("another checkpoint", capturing)
	b.swap(v, schemas.TCheckpointFailed, schemas.Set{Failure: &schemas.Failure{Op: schemas.OpCheckpoint, Text: "the store is full"}})
	if r := <-got; r.err != nil || r.Word != triggers.Failed || r.Why != "a test" {
		t.Errorf("a failed one: %+v", r)
	}
	if v, _ := b.records.Get(b.ctx, agent); v.State != schemas.Running || v.Op != nil {
		t.Errorf("after a failure the session is %s, op %+v", v.State, v.Op)
	}
}

// A session that something is being done to is waited for; one that sleeps is left alone.
func TestTriggeredCheckpointWaits(t *testing.T) {
	b := newBench(t)
	v := b.starting()
	got := b.ask(b.server, 10)
	v = b.swap(v, schemas.TClaimed, schemas.Set{Claim: "c"})
	b.swap(v, schemas.TStarted, schemas.Set{})
	v = b.until("a checkpoint once it runs", capturing)
	v = b.swap(v, schemas.TCheckpointed, schemas.Set{Head: &schemas.Head{Name: "a"}})
	if r := <-got; r.err != nil || r.Word != triggers.Done {
		t.Errorf("it came to %+v", r)
	}
	v = b.swap(v, schemas.TSuspend, schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}})
	got = b.ask(b.server, 11)
	v = b.swap(v, schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "b"}, Op: &schemas.Op{ID: "s", Kind: schemas.OpReap}})
	if r := <-got; r.err != nil || r.Word != triggers.Dropped {
		t.Errorf("of a suspended one: %+v", r)
	}
	v = b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRemove}})
	b.swap(v, schemas.TRemoved, schemas.Set{})
	if r := <-b.ask(b.server, 12); !errors.As(r.err, new(*schemas.APIError)) {
		t.Errorf("of a deleted one: %+v", r)
	}
}

// Of several servers that hear the same trigger one begins a checkpoint.
func TestTriggeredOnce(t *testing.T) {
	b := newBench(t)
	b.running()
	servers := []*Server{b.server, b.serve(), b.serve()}
	all := make([]<-chan result, len(servers))
	for i, s := range servers {
		all[i] = b.ask(s, 10)
	}
	v := b.until("a checkpoint", capturing)
	b.swap(v, schemas.TCheckpointed, schemas.Set{Head: &schemas.Head{Name: "a"}})
	words := map[string]int{}
	for _, ch := range all {
		r := <-ch
		b.must(r.err)
		words[r.Word]++
	}
	if words[triggers.Done] != 1 || words[triggers.Taken] != 2 {
		t.Errorf("they came to %v", words)
	}
	revisions, err := b.records.History(b.ctx, agent)
	b.must(err)
	asked := 0
	for _, r := range revisions {
		if r.Transition.Type == schemas.TCheckpoint {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d checkpoints were asked", asked)
	}
}

// The census counts every session once, as its last revision says.
func TestCensus(t *testing.T) {
	b := newBench(t)
	v := b.running()
	c := func() Census { return b.server.Census() }
	wait := func(what string, ok func(Census) bool) {
		t.Helper()
		for !ok(c()) {
			select {
			case <-b.ctx.Done():
				t.Fatalf("waited in vain for %s: %+v", what, c())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	wait("one that runs", func(c Census) bool { return c.States[schemas.Running] == 1 && c.States[schemas.Starting] == 0 })
	v = b.swap(v, schemas.TSuspend, schemas.Set{Op: &schemas.Op{ID: "s"}})
	v = b.swap(v, schemas.TSuspendFailed, schemas.Set{Failure: &schemas.Failure{Op: schemas.OpSuspend, Count: 3, Open: true}})
	wait("an open breaker", func(c Census) bool { return c.Breakers == 1 && c.States[schemas.Running] == 1 })
	v = b.swap(v, schemas.TBreakerReset, schemas.Set{})
	wait("a closed one", func(c Census) bool { return c.Breakers == 0 })
	b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "r"}})
	wait("none", func(c Census) bool { return c.States[schemas.Running] == 0 && c.States[schemas.Deleted] == 1 })
}

// A checkpoint at an interval is made of the session as it was read, and of no other.
func TestRenew(t *testing.T) {
	b := newBench(t)
	read := b.running()
	type result struct {
		triggers.Outcome
		err error
	}
	got := make(chan result, 1)
	renew := func(r schemas.SessionRecord) {
		o, err := b.server.Renew(b.ctx, r, "its policy says every 10m")
		got <- result{o, err}
	}
	go renew(read.SessionRecord)
	v := b.until("a checkpoint", capturing)
	if tr := v.Transition; v.Op.Trigger != triggers.ByInterval || tr.Actor != "policy" || tr.Reason != "its policy says every 10m" {
		t.Errorf("op %+v, asked by %q: %q", v.Op, tr.Actor, tr.Reason)
	}
	renew(v.SessionRecord) // while it is under way
	if r := <-got; r.err != nil || r.Word != triggers.Dropped {
		t.Errorf("a second one came to %+v", r)
	}
	v = b.swap(v, schemas.TClaimed, schemas.Set{Claim: "c"})
	b.swap(v, schemas.TCheckpointed, schemas.Set{Head: &schemas.Head{Name: "a"}, Size: &schemas.Sizes{At: time.Now()}}, schemas.Stage{Name: "frozen", MS: 40})
	if r := <-got; r.err != nil || r.Word != triggers.Done || r.Frozen != 40*time.Millisecond {
		t.Errorf("it came to %+v", r)
	}
	renew(read.SessionRecord) // which has a snapshot by now
	if r := <-got; r.err != nil || r.Word != triggers.Dropped {
		t.Errorf("of an old record it came to %+v", r)
	}
}
