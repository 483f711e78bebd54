package worker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// The order that everything rests on: durable image, then the record, then the
// kill; and the resume goes on from there.
func TestSuspendAndResume(t *testing.T) {
	b := newBench(t)
	v := b.run()
	before := b.count(v.UID)
	entered, release := b.pause("Stop")
	b.suspend(true)
	b.wait(entered)
	rec, err := b.records.Get(b.ctx, b.name)
	b.must(err)
	if rec.State != schemas.Suspended || rec.Head == nil || rec.Op == nil || rec.Op.Kind != schemas.OpReap {
		t.Fatalf("at the kill the record is %s, head %v, op %+v", rec.State, rec.Head, rec.Op)
	}
	img, err := image.Open(b.ctx, b.dir, *rec.Head, image.ReadOptions{Identities: b.options().Identities, Trusted: b.options().Trusted})
	b.must(err)
	b.must(img.Verify(b.ctx))
	b.must(img.Close())
	if got := b.state(v.UID); got != driver.Frozen {
		t.Errorf("before the kill the session is %q, want frozen", got)
	}
	close(release)
	b.until("suspended", suspended)
	b.isOnHost(v.UID, "")

	b.resume()
	again := b.until("running", running)
	if n := b.count(v.UID); n != before+1 {
		t.Errorf("it counted to %d, and goes on with %d", before, n)
	}
	if again.Generation != 2 || again.Boot != "clean" && again.Boot != "resume" {
		t.Errorf("generation %d, boot %q", again.Generation, again.Boot)
	}
	if got := b.log(); got != "run started suspend suspended reaped resume resumed" {
		t.Errorf("the log is %s", got)
	}
	b.folded()
}

func TestActivityUndoesASuspend(t *testing.T) {
	for name, c := range map[string]struct {
		idle   bool
		kind   schemas.Kind
		key    string
		undoes bool
	}{
		"input, idle":       {true, schemas.KindInput, "", true},
		"a page, idle":      {true, schemas.KindHeartbeat, "", true},
		"busy, idle":        {true, schemas.KindBusy, "cpu", true},
		"output, idle":      {true, schemas.KindOutput, "", false},
		"input, asked for":  {false, schemas.KindInput, "", true},
		"a page, asked for": {false, schemas.KindHeartbeat, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			v := b.run()
			before := b.count(v.UID)
			entered, release := b.pause("Capture")
			b.suspend(c.idle)
			b.wait(entered)
			b.say(c.kind, c.key)
			if !c.undoes {
				b.say(schemas.KindOutput, "") // and one more that doesn't
				close(release)
				b.until("suspended", suspended)
				return
			}
			got := b.until("running again", running)
			if got.Transition.Type != schemas.TSuspendAborted || got.Transition.Evidence == nil || got.Transition.Evidence.Seq == 0 {
				t.Errorf("it runs because of %s, evidence %+v", got.Transition.Type, got.Transition.Evidence)
			}
			b.isOnHost(v.UID, driver.Running)
			if n := b.count(v.UID); n != before+1 {
				t.Errorf("it counted to %d, and goes on with %d", before, n)
			}
			if left := b.objects("default/"); len(left) > 0 {
				t.Errorf("the store keeps %v of a capture that was given up", left)
			}
			b.folded()
		})
	}
}

// A message of an earlier session of the name is no activity of this one.
func TestOldActivityUndoesNothing(t *testing.T) {
	b := newBench(t)
	b.say(schemas.KindInput, "")
	b.run()
	op := b.op(schemas.OpSuspend)
	op.Idle, op.Seq = true, 0 // as of a decision that has heard nothing yet
	b.change(schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: op}})
	b.until("suspended", suspended)
	if got := b.log(); got != "run started suspend suspended reaped" {
		t.Errorf("the log is %s", got)
	}
}

// Activity while the image is being made durable is too late to stop it, or not;
// in no case is it lost, and nothing is killed.
func TestActivityAtTheLastMoment(t *testing.T) {
	b := newBench(t)
	v := b.run()
	before := b.count(v.UID)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.images.set(func(s *faultyStore) { s.entered, s.release = entered, release })
	b.suspend(true)
	b.wait(entered)
	b.say(schemas.KindInput, "")
	close(release)
	b.until("running again", running)
	b.isOnHost(v.UID, driver.Running)
	if n := b.count(v.UID); n != before+1 {
		t.Errorf("it counted to %d, and goes on with %d", before, n)
	}
}

// The record says suspended already, the tree is frozen still: a thaw is enough.
func TestActivityBeforeTheKillRevives(t *testing.T) {
	b := newBench(t)
	v := b.run()
	before := b.count(v.UID)
	calls := b.fake.Calls()
	b.fake.Script("Stop", fake.Step{Before: errors.New("the kernel is busy")})
	b.suspend(true)
	b.until("the kill to be due", in(schemas.Suspended))
	b.say(schemas.KindInput, "")
	got := b.until("running again", running)
	if got.Transition.Type != schemas.TRevived || got.Epoch != v.Epoch+2 || got.Head == nil {
		t.Errorf("%s, epoch %d after %d, head %v", got.Transition.Type, got.Epoch, v.Epoch, got.Head)
	}
	b.isOnHost(v.UID, driver.Running)
	if n := b.count(v.UID); n != before+1 {
		t.Errorf("it counted to %d, and goes on with %d", before, n)
	}
	b.crash()
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Restore" {
			t.Error("it was restored; a thaw was enough")
		}
	}
	b.folded()
}

func TestCaptureFails(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *bench)
		text  string
		kind  driver.Kind
	}{
		"the driver": {func(b *bench) { b.fake.Script("Capture", fake.Step{Before: errors.New("out of luck")}) }, "out of luck", driver.Transient},
		"the driver refuses": {func(b *bench) {
			b.fake.Script("Capture", fake.Step{Before: &driver.Error{Kind: driver.Refused, Text: "can't", Blockers: []driver.Blocker{{PID: 7, Program: "prog", What: "fd 3", Why: "w", Fix: "f"}}}})
		}, "prog (pid 7)", driver.Refused},
		"after its work": {func(b *bench) { b.fake.Script("Capture", fake.Step{After: errors.New("late")}) }, "late", driver.Transient},
		"keys":           {func(b *bench) { b.images.set(func(s *faultyStore) { s.failPuts = "/keys/" }) }, errStore.Error(), driver.Transient},
		"packs":          {func(b *bench) { b.images.set(func(s *faultyStore) { s.failPuts = "/packs/" }) }, errStore.Error(), driver.Transient},
		"the header":     {func(b *bench) { b.images.set(func(s *faultyStore) { s.failPuts = "/snaps/" }) }, errStore.Error(), driver.Transient},
	} {
		for _, kind := range []string{schemas.OpSuspend, schemas.OpCheckpoint} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				v := b.run()
				before := b.count(v.UID)
				c.spoil(b)
				end, left := made(schemas.TSuspendFailed), schemas.TSuspend
				if kind == schemas.OpCheckpoint {
					end, left = made(schemas.TCheckpointFailed), schemas.TCheckpoint
				}
				b.change(schemas.Transition{Type: left, Set: schemas.Set{Op: b.op(kind)}})
				got := b.until("a failure", end)
				if !running(got) || got.Failure == nil || got.Failure.Op != kind || got.Failure.Count != 1 || got.Failure.Kind != string(c.kind) || !strings.Contains(got.Failure.Text, c.text) {
					t.Errorf("%s, failure %+v, want %q", got.State, got.Failure, c.text)
				}
				b.isOnHost(v.UID, driver.Running)
				if n := b.count(v.UID); n != before+1 {
					t.Errorf("it counted to %d, and goes on with %d", before, n)
				}
				b.folded()
			})
		}
	}
}

// Failures are counted in a row, and forgotten by the first success.
func TestFailuresInARow(t *testing.T) {
	b := newBench(t)
	b.run()
	for n := 1; n <= 3; n++ {
		b.fake.Script("Capture", fake.Step{Before: errors.New("no")})
		epoch := b.suspend(true).Epoch
		got := b.until("a failure", func(v statekv.Versioned) bool { return running(v) && v.Epoch == epoch })
		if got.Failure == nil || got.Failure.Count != n {
			t.Fatalf("after %d failures: %+v", n, got.Failure)
		}
	}
	b.suspend(false)
	if got := b.until("suspended", suspended); got.Failure != nil {
		t.Errorf("after a success: %+v", got.Failure)
	}
}

// A thaw that fails is tried again until it works, also after a capture that failed.
func TestThawIsTriedAgain(t *testing.T) {
	for name, broken := range map[string]bool{"after a failure": true, "after a checkpoint": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			v := b.run()
			if broken {
				b.fake.Script("Capture", fake.Step{Before: errors.New("no")})
			}
			for range 2 {
				b.fake.Script("Thaw", fake.Step{Before: errors.New("the freezer is stuck")})
			}
			b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
			b.until("an end", func(v statekv.Versioned) bool { return running(v) && v.Version > 3 })
			b.isOnHost(v.UID, driver.Running)
			b.folded()
		})
	}
}

func TestCheckpoint(t *testing.T) {
	b := newBench(t)
	v := b.run()
	before := b.count(v.UID)
	op := b.op(schemas.OpCheckpoint)
	op.Trigger = "manual"
	b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: op}})
	got := b.until("a checkpoint", made(schemas.TCheckpointed))
	if !running(got) || got.Head == nil || got.Size == nil || got.Epoch != v.Epoch || got.Transition.Op != op.ID {
		t.Errorf("%s, head %v, epoch %d", got.State, got.Head, got.Epoch)
	}
	b.isOnHost(v.UID, driver.Running)
	if n := b.count(v.UID); n != before+1 {
		t.Errorf("it counted to %d, and goes on with %d", before, n)
	}
}

// A record that moves on while the session is captured decides.
func TestRecordMovesDuringCapture(t *testing.T) {
	for _, kind := range []string{schemas.OpRemove, schemas.OpKill} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			v := b.run()
			entered, _ := b.pause("Capture") // never released: the move must end it
			if kind == schemas.OpRemove {
				b.suspend(true)
			} else {
				b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
			}
			b.wait(entered)
			calls := b.fake.Calls()
			moved, end := schemas.TRemove, made(schemas.TRemoved)
			if kind == schemas.OpKill {
				moved, end = schemas.TKill, made(schemas.TExited)
			}
			b.change(schemas.Transition{Type: moved, Set: schemas.Set{Op: b.op(kind)}})
			b.until("its end", end)
			b.isOnHost(v.UID, "")
			if left := b.objects("default/"); len(left) > 0 {
				t.Errorf("the store keeps %v", left)
			}
			b.crash()
			for len(calls) > 0 {
				if c := <-calls; c.Method == "Thaw" {
					t.Error("it ran again after it was to end")
				}
			}
			b.folded()
		})
	}
}

func TestExit(t *testing.T) {
	b := newBench(t)
	v := b.run()
	b.fake.Exit(v.UID, 3)
	got := b.until("exited", in(schemas.Exited))
	if got.Exit == nil || got.Exit.Code != 3 || got.Op != nil {
		t.Errorf("exit %+v, op %v", got.Exit, got.Op)
	}
	b.isOnHost(v.UID, "")
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	b.until("removed", made(schemas.TRemoved))
	b.folded()
}

// A session that ends while it is being suspended has ended.
func TestExitDuringCapture(t *testing.T) {
	b := newBench(t)
	v := b.run()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.fake.Script("Capture", fake.Step{Entered: entered, Block: release, After: errors.New("no process is left")})
	b.suspend(true)
	b.wait(entered)
	b.fake.Exit(v.UID, 4)
	close(release)
	got := b.until("exited", in(schemas.Exited))
	if got.Exit == nil || got.Exit.Code != 4 {
		t.Errorf("exit %+v", got.Exit)
	}
	b.isOnHost(v.UID, "")
	b.folded()
}
