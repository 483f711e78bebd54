package worker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// The worker ends in the middle of each step of each op; the next one on the
// same host brings it to the same good end.
func TestCrashes(t *testing.T) {
	suspend := func(idle bool) func(b *bench) { return func(b *bench) { b.suspend(idle) } }
	for name, c := range map[string]struct {
		asleep bool // it is suspended before
		method string
		op     func(b *bench)
		end    func(statekv.Versioned) bool
		log    string // its end
	}{
		"start":                  {op: func(b *bench) {}, method: "Start", end: running, log: "run started"},
		"idle suspend, capture":  {op: suspend(true), method: "Capture", end: running, log: "suspend suspend_aborted"},
		"idle suspend, kill":     {op: suspend(true), method: "Stop", end: suspended, log: "suspend suspended reaped"},
		"asked suspend, capture": {op: suspend(false), method: "Capture", end: suspended, log: "suspend suspended reaped"},
		"asked suspend, kill":    {op: suspend(false), method: "Stop", end: suspended, log: "suspend suspended reaped"},
		"checkpoint, capture": {op: func(b *bench) {
			b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
		}, method: "Capture", end: made(schemas.TCheckpointed), log: "checkpoint checkpointed"},
		"checkpoint, thaw": {op: func(b *bench) {
			b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
		}, method: "Thaw", end: made(schemas.TCheckpointed), log: "checkpoint checkpointed"},
		"resume, restore":  {asleep: true, op: func(b *bench) { b.resume() }, method: "Restore", end: running, log: "resume resumed"},
		"resume, clearing": {asleep: true, op: func(b *bench) { b.resume() }, method: "Stop", end: running, log: "resume resumed"},
		"remove": {op: func(b *bench) {
			b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
		}, method: "Stop", end: made(schemas.TRemoved), log: "remove removed"},
		"kill": {op: func(b *bench) {
			b.change(schemas.Transition{Type: schemas.TKill, Set: schemas.Set{Op: b.op(schemas.OpKill)}})
		}, method: "Stop", end: in(schemas.Exited), log: "kill exited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := 0
			var v statekv.Versioned
			switch {
			case c.method == "Start":
				b.work()
			case c.asleep:
				v, n = b.asleep()
			default:
				v = b.run()
				n = b.count(v.UID)
			}
			entered, _ := b.pause(c.method) // never released: the crash ends it
			if c.method == "Start" {
				v = b.asked("count")
			}
			c.op(b)
			b.wait(entered)
			b.crash()
			b.work()
			got := b.until(c.log, c.end)
			if log := b.log(); !strings.HasSuffix(log, c.log) {
				t.Errorf("the log is %s, want …%s", log, c.log)
			}
			switch got.State {
			case schemas.Running:
				if m := b.count(v.UID); m != n+1 {
					t.Errorf("it counted to %d, and goes on with %d", n, m)
				}
			case schemas.Suspended:
				b.isOnHost(v.UID, "")
				b.resume()
				b.until("running", running)
				if m := b.count(v.UID); m != n+1 {
					t.Errorf("it counted to %d, and goes on with %d", n, m)
				}
			default:
				b.isOnHost(v.UID, "")
			}
			b.folded()
		})
	}
}

// A session that is to be resumed from its image must not run on from its frozen
// tree meanwhile, even if a worker left it claimed.
func TestFrozenTreeOfAResumeStaysFrozen(t *testing.T) {
	b := newBench(t)
	v := b.run()
	n := b.count(v.UID)
	entered, _ := b.pause("Stop")
	b.suspend(false)
	b.wait(entered)
	b.crash()
	b.resume()
	entered, _ = b.pause("Stop")
	b.work()
	b.wait(entered) // claimed, the tree still there
	b.crash()
	calls := b.fake.Calls()
	b.work()
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.crash()
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Thaw" {
			t.Error("the replaced tree ran again")
		}
	}
}

func TestWhatHappenedWhileTheWorkerWasDown(t *testing.T) {
	b := newBench(t)
	v := b.run()
	b.crash()
	b.fake.Exit(v.UID, 9)
	b.work()
	if got := b.until("exited", in(schemas.Exited)); got.Exit == nil || got.Exit.Code != 9 {
		t.Errorf("exit %+v", got.Exit)
	}
	b.isOnHost(v.UID, "")
}

// Asked for while no worker was there, command lost: the record is enough.
func TestWorkWaitsInTheRecord(t *testing.T) {
	b := newBench(t)
	v := b.asked("count")
	b.work()
	b.until("running", running)
	b.isOnHost(v.UID, driver.Running)
	b.crash()
	b.suspend(true)
	b.work()
	b.until("suspended", suspended)
}

// Found frozen though the record says running: it goes on. What the record has left
// behind goes, and doesn't keep the rest from being found even if it can't. What is
// later than every record stays: it is the records that have gone back.
func TestFound(t *testing.T) {
	b := newBench(t)
	v := b.run()
	b.crash()
	if _, err := b.fake.Capture(b.ctx, driver.Fence{UID: v.UID, Name: b.name, Epoch: v.Epoch}, nowhere{}); err != nil {
		t.Fatal(err)
	}
	stray := driver.Fence{UID: "stray", Name: schemas.Name{Tenant: "default", Session: "stray"}, Epoch: 4}
	if _, err := b.fake.Start(b.ctx, stray, schemas.Spec{Command: []string{"count"}}, begin); err != nil {
		t.Fatal(err)
	}
	older := driver.Fence{UID: "older", Name: b.name, Epoch: v.Epoch}
	later := driver.Fence{UID: "later", Name: b.name, Epoch: v.Epoch + 1}
	for _, f := range []driver.Fence{older, later} {
		if _, err := b.fake.Start(b.ctx, f, schemas.Spec{Command: []string{"count"}}, begin); err != nil {
			t.Fatal(err)
		}
	}
	b.work()
	b.isOnHost(v.UID, driver.Running)
	b.isOnHost("older", "")
	b.isOnHost("stray", driver.Running)
	b.isOnHost("later", driver.Running)
	b.crash()
	if _, err := b.fake.Start(b.ctx, older, schemas.Spec{Command: []string{"count"}}, begin); err != nil {
		t.Fatal(err)
	}
	b.fake.Script("Stop", fake.Step{Before: errors.New("it is stuck")})
	b.work()
	b.suspend(false)
	b.until("suspended", suspended)
}

// A failing start of the worker leaves nothing running in the process.
func TestRecoveryFails(t *testing.T) {
	b := newBench(t)
	b.fake.Script("Recover", fake.Step{Before: errors.New("no cgroups")})
	w := worker.New(b.options())
	if err := w.Serve(b.ctx); err == nil || !strings.Contains(err.Error(), "no cgroups") {
		t.Errorf("Serve ends with %v", err)
	}
}

// A session of a driver that this host doesn't have (any more): what needs it
// says so, and nothing is tried in a circle.
func TestDriverIsMissing(t *testing.T) {
	b := newBench(t)
	v, _ := b.asleep()
	b.crash()
	w := b.options()
	w.Drivers = nil
	b.workWith(w)
	b.resume()
	got := b.until("a failure", made(schemas.TResumeFailed))
	if got.Failure == nil || !strings.Contains(got.Failure.Text, `no driver "fake"`) {
		t.Errorf("failure %+v", got.Failure)
	}
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	b.work()
	b.until("removed", made(schemas.TRemoved))
	b.isOnHost(v.UID, "")
}

// A fork needs its origin's images until it has one of its own.
func TestRemovedOriginKeepsImagesForItsFork(t *testing.T) {
	b := newBench(t)
	b.sweep = 0 // as usual; the test restarts the worker instead
	v, n := b.asleep()
	twin := schemas.Name{Tenant: "default", Session: "twin"}
	op := b.op(schemas.OpResume)
	op.Source, op.Boot = v.Head, "fork"
	_, err := b.records.Swap(b.ctx, statekv.Versioned{}, schemas.Transition{Type: schemas.TForkNew, Set: schemas.Set{Host: "h", Op: op, Head: v.Head,
		New: &schemas.NewSession{UID: "twin", Tenant: "default", Session: "twin", Class: "web", Driver: "fake", Spec: v.Spec, Lineage: "twin"}}})
	b.must(err)
	b.isOnHost("twin", driver.Running)
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	got := b.until("deferred", made(schemas.TDeferred))
	if got.State != schemas.Deleted || got.Op == nil || !strings.Contains(got.Transition.Reason, "twin") {
		t.Errorf("%s, op %v: %s", got.State, got.Op, got.Transition.Reason)
	}
	if len(b.objects("default/"+v.Lineage)) == 0 {
		t.Error("the fork's image is gone")
	}
	if m := b.count("twin"); m != n+1 {
		t.Errorf("the origin counted to %d, the fork goes on with %d", n, m)
	}
	b.name = twin
	b.suspend(false)
	b.until("suspended", suspended)
	b.name.Session = "work"
	b.work()
	b.until("removed", made(schemas.TRemoved))
	if left := b.objects("default/" + v.Lineage); len(left) > 0 {
		t.Errorf("the store keeps %v", left)
	}
	b.folded()
}

// A crash between the record, which says running, and the first instruction:
// what never ran begins again, and is not lost.
func TestCrashBeforeTheFirstInstruction(t *testing.T) {
	b := newBench(t)
	v, n := b.asleep()
	b.resume()
	again := b.until("running", running)
	b.crash()
	b.fake.Lose(v.UID)
	b.work()
	got := b.until("running again", func(v statekv.Versioned) bool { return running(v) && v.Epoch > again.Epoch })
	if got.Generation != again.Generation || got.Boot != again.Boot || *got.Head != *v.Head || !strings.Contains(b.log(), "resume_again") {
		t.Errorf("generation %d, boot %s, head %v: %s", got.Generation, got.Boot, got.Head, b.log())
	}
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.folded()
}

func TestCrashBeforeTheFirstStart(t *testing.T) {
	b := newBench(t)
	v := b.run()
	b.crash()
	b.fake.Lose(v.UID)
	b.work()
	got := b.until("running again", func(w statekv.Versioned) bool { return running(w) && w.Epoch > v.Epoch })
	if got.Generation != 1 || got.Boot != "clean" || !strings.Contains(b.log(), "start_again") {
		t.Errorf("generation %d, boot %s: %s", got.Generation, got.Boot, b.log())
	}
	b.isOnHost(v.UID, driver.Running)
	b.folded()
}
