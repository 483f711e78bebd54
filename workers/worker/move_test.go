package worker_test

import (
	"context"
	"sync"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// second runs a worker of another host, "other", until the test ends.
func (b *bench) second() *fake.Driver {
	b.t.Helper()
	d, o := fake.New(), b.options()
	o.Host, o.Drivers = "other", map[schemas.DriverName]driver.Driver{"fake": d}
	w := worker.New(o)
	ctx, cancel := context.WithCancel(b.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Serve(ctx); err != nil {
			b.t.Errorf("the other worker ended with %v", err)
		}
	})
	b.t.Cleanup(func() { cancel(); running.Wait() })
	select {
	case <-w.Ready():
	case <-b.ctx.Done():
		b.t.Fatal("the other worker isn't ready")
	}
	return d
}

func (b *bench) move(idle bool) {
	b.t.Helper()
	op := b.op(schemas.OpSuspend)
	op.Idle, op.Move = idle, &schemas.Move{From: "h", To: "other"}
	b.change(schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: op}})
}

func at(h schemas.HostID) func(statekv.Versioned) bool {
	return func(v statekv.Versioned) bool { return running(v) && v.Host == h }
}

// A move is one op from the suspend to the resume, and needs the two hosts alone. Use doesn't undo
// it.
func TestMove(t *testing.T) {
	b := newBench(t)
	other := b.second()
	v := b.run()
	before := b.count(v.UID)
	entered, release := b.pause("Stop")
	b.move(false)
	b.wait(entered)
	if now, err := b.records.Get(b.ctx, b.name); err != nil || now.State != schemas.Suspended || now.MovingTo() != "other" {
		t.Errorf("before its processes are gone: %s on its way to %q, %v", now.State, now.MovingTo(), err)
	}
	b.say(schemas.KindInput, "")
	close(release)
	got := b.until("running there", at("other"))
	b.isOnHost(v.UID, "")
	if n := b.countOn(other, v.UID); n != before+1 {
		t.Errorf("it counted to %d, and goes on with %d", before, n)
	}
	if got.MovingTo() != "" || got.Failure != nil {
		t.Errorf("after the move: on its way to %q, failure %+v", got.MovingTo(), got.Failure)
	}
	if log := b.log(); log != "run started suspend suspended resume resumed" {
		t.Errorf("the log is %s", log)
	}
	all, err := b.records.History(b.ctx, b.name)
	b.must(err)
	for _, r := range all[3:] { // after run, claimed and started
		if r.Op != nil && r.Op.ID != all[3].Op.ID {
			t.Errorf("%s is of op %s, the move's is %s", r.Transition.Type, r.Op.ID, all[3].Op.ID)
		}
	}
	b.folded()
}

// A session that can't be resumed where it goes runs on where it was, by the two hosts alone: no
// other part is there.
func TestMoveGoesBack(t *testing.T) {
	for name, step := range map[string]fake.Step{
		"it can't be restored":            {Before: &driver.Error{Kind: driver.Refused, Text: "no room"}},
		"it was recorded, and never ran":  {Undone: &driver.Error{Kind: driver.Refused, Text: "no room"}},
		"its image can't be read for now": {Before: &driver.Error{Kind: driver.Broken, Text: "no room"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			other := b.second()
			v := b.run()
			before := b.count(v.UID)
			other.Script("Restore", step)
			b.move(false)
			got := b.until("running again", func(v statekv.Versioned) bool { return at("h")(v) && v.Generation > 1 })
			if n := b.count(v.UID); n != before+1 {
				t.Errorf("it counted to %d, and goes on with %d", before, n)
			}
			if got.Failure == nil || got.Failure.Op != schemas.OpMove || len(got.Failure.Tried) != 1 || got.Failure.Tried[0] != "other" {
				t.Errorf("the failure is %+v", got.Failure)
			}
			b.folded()
		})
	}
}

// One that was suspended before doesn't go back by itself: its host is chosen first.
func TestMoveOfASuspendedSession(t *testing.T) {
	b := newBench(t)
	other := b.second()
	b.run()
	b.suspend(false)
	v := b.until("suspended", suspended)
	other.Script("Restore", fake.Step{Before: &driver.Error{Kind: driver.Refused, Text: "no room"}})
	op := b.op(schemas.OpResume)
	op.Source, op.Move = v.Head, &schemas.Move{From: "h", To: "other", Asleep: true}
	b.change(schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: op, Host: "other"}})
	got := b.until("back", made(schemas.TMovedBack))
	if got.State != schemas.Resuming || got.Host != "h" || got.Op == nil || !got.Op.Unplaced || got.Op.Move != nil {
		t.Fatalf("%s on host %s, op %+v", got.State, got.Host, got.Op)
	}
	placed := got.Op.Reissue(got.Since)
	placed.Unplaced = false
	b.change(schemas.Transition{Type: schemas.TMoved, Set: schemas.Set{Op: placed, Host: "h"}})
	b.until("running", at("h"))
	if log := b.log(); log != "run started suspend suspended reaped resume moved_back moved resumed" {
		t.Errorf("the log is %s", log)
	}
}

// A drain's suspend for a move is undone by use, like every suspend for idleness.
func TestUseUndoesAMoveForIdleness(t *testing.T) {
	b := newBench(t)
	b.second()
	v := b.run()
	entered, release := b.pause("Capture")
	b.move(true)
	b.wait(entered)
	b.say(schemas.KindHeartbeat, "")
	b.until("running", made(schemas.TSuspendAborted))
	close(release)
	b.isOnHost(v.UID, driver.Running)
}
