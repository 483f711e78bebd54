package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// another is one of several schedulers.
type another struct {
	*scheduler.Scheduler
	stop func()
}

// beside runs a scheduler with an office, or without one if lead is nil.
func (b *bench) beside(actor string, lead scheduler.Lead) another {
	b.t.Helper()
	return b.besideOf(scheduler.Options{Actor: actor, Lead: lead})
}

// besideOf is beside for one that is otherwise as said.
func (b *bench) besideOf(o scheduler.Options) another {
	b.t.Helper()
	o.JS, o.Names, o.Records, o.Log = b.js, stream.NamesWith(""), b.records, slog.New(slog.NewTextHandler(b.logged, nil))
	s := scheduler.New(o)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	ended := false
	a := another{s, func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("%s ended with %v", o.Actor, err)
		}
	}}
	b.t.Cleanup(a.stop)
	select {
	case <-s.Ready():
	case <-time.After(limit):
		b.t.Fatalf("%s isn't ready", o.Actor)
	}
	return a
}

func (b *bench) office(name schemas.HostID) *lease.Office {
	b.t.Helper()
	s, err := lease.OpenOffice(b.ctx, b.js, stream.NamesWith(""), "scheduler")
	b.must(err)
	return &lease.Office{Store: s, Holder: name, Term: 500 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
}

func (b *bench) acts(a another) {
	b.t.Helper()
	for deadline := time.Now().Add(limit); !a.Active(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatal("it never acts")
		}
	}
}

// One of two acts. The other stands by, and takes over when the first is gone, with
// what it has heard all the while: no grace starts again.
func TestStandby(t *testing.T) {
	b := newBench(t)
	first := b.beside("first", b.office("first"))
	b.acts(first)
	second := b.beside("second", b.office("second"))
	b.run(work, grace)
	b.scheduler = second.Scheduler
	b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Running })
	if v := b.until(work, schemas.Suspending); v.Transition.Actor != "first" || second.Active() {
		t.Fatalf("suspended by %s", v.Transition.Actor)
	}
	b.suspended(work)
	other := schemas.Name{Tenant: "default", Session: "other"}
	b.run(other, time.Hour)
	began := time.Now()
	b.explained(other, func(e schemas.Explanation) bool { return e.IdleSeconds > 0.5 })
	first.stop()
	b.acts(second)
	// What is said now is heard by who has taken over, and the silence before counts.
	b.say(work, schemas.KindInput, "", schemas.Activity{})
	if v := b.until(work, schemas.Resuming); v.Transition.Actor != "second" {
		t.Errorf("resumed by %s", v.Transition.Actor)
	}
	e := b.explained(other, func(schemas.Explanation) bool { return true })
	if known := time.Since(began).Seconds(); e.IdleSeconds < 0.5 || e.IdleSeconds > known+1 {
		t.Errorf("idle for %v s, and it was known for %v s", e.IdleSeconds, known)
	}
}

// A scheduler that begins when the other is gone has heard nothing of what was said in
// between: every grace starts again.
func TestTakeoverWithAGap(t *testing.T) {
	b := newBench(t)
	first := b.beside("first", b.office("first"))
	b.acts(first)
	b.run(work, time.Hour)
	b.scheduler = first.Scheduler
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > 0.5 })
	first.stop()
	began := time.Now()
	second := b.beside("second", b.office("second"))
	b.acts(second)
	b.scheduler = second.Scheduler
	if e := b.explained(work, func(schemas.Explanation) bool { return true }); e.IdleSeconds > time.Since(began).Seconds() {
		t.Errorf("idle for %v s, heard for %v s", e.IdleSeconds, time.Since(began).Seconds())
	}
}

// Three that all believe they lead: every session is suspended and resumed as by one,
// none waits for a turn that never comes, and what the slower ones find out too late is
// no error.
func TestThreeLeaders(t *testing.T) {
	b := newBench(t)
	for i := range 3 {
		b.beside(fmt.Sprint("leader", i), nil)
	}
	worker := b.work()
	var names []schemas.Name
	for i := range 24 {
		n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}
		names = append(names, n)
		b.run(n, grace/4)
	}
	for _, n := range names {
		b.until(n, schemas.Suspended)
	}
	for _, n := range names {
		b.say(n, schemas.KindInput, "", schemas.Activity{})
	}
	for range names {
		select {
		case <-worker:
		case <-time.After(limit):
			t.Fatal("not every session is resumed")
		}
	}
	if n := b.logged.with("decision not recorded"); n > 0 {
		t.Errorf("%d decisions were not recorded", n)
	}
}

// work does what a worker does for every session, and tells of those that it resumed
// for the first time.
func (b *bench) work() <-chan schemas.Name {
	resumed := make(chan schemas.Name, 1000)
	again := map[schemas.Name]bool{}
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := b.records.Watch(ctx, func(v statekv.Versioned) {
			switch {
			case v.State == schemas.Suspending:
				b.suspended(v.Name())
			case v.State == schemas.Resuming:
				b.change(v.Name(), schemas.Transition{Type: schemas.TResumed})
				if !again[v.Name()] {
					again[v.Name()] = true
					resumed <- v.Name()
				}
			}
		}, func() {})
		if err != nil {
			b.t.Error(err)
		}
	}()
	b.t.Cleanup(func() { cancel(); <-done })
	return resumed
}
