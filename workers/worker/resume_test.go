package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// asleep makes a suspended session that has counted to n.
func (b *bench) asleep() (v statekv.Versioned, n int) {
	b.t.Helper()
	v = b.run()
	n = b.count(v.UID)
	b.suspend(false)
	return b.until("suspended", suspended), n
}

func TestStartFails(t *testing.T) {
	b := newBench(t)
	b.work()
	v := b.asked("missing")
	got := b.until("failed", in(schemas.Failed))
	if got.Failure == nil || got.Failure.Op != schemas.OpStart || got.Failure.Kind != string(driver.Refused) || got.Op != nil {
		t.Errorf("failure %+v, op %v", got.Failure, got.Op)
	}
	b.isOnHost(v.UID, "")
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	b.until("removed", made(schemas.TRemoved))
	b.asked("count") // the name is free again
	b.until("running", running)
	b.folded()
}

func TestUnsealableSpec(t *testing.T) {
	b := newBench(t)
	key := b.key
	b.key = newBench(t).key
	b.asked("count")
	b.key = key
	b.work()
	if got := b.until("failed", in(schemas.Failed)); !strings.Contains(got.Failure.Text, "identity") {
		t.Errorf("failure %+v", got.Failure)
	}
}

// What fails in passing is tried three times, each counted; then the image is
// kept and the reason told.
func TestResumeFails(t *testing.T) {
	b := newBench(t)
	v, n := b.asleep()
	calls := b.fake.Calls()
	for range 3 {
		b.fake.Script("Restore", fake.Step{Before: errors.New("no pids left")})
	}
	b.resume()
	got := b.until("a failure", made(schemas.TResumeFailed))
	if !suspended(got) || got.Failure == nil || got.Failure.Count != 3 || !strings.Contains(got.Failure.Text, "no pids left") || *got.Head != *v.Head {
		t.Fatalf("%s, failure %+v, head %v", got.State, got.Failure, got.Head)
	}
	restores := 0
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Restore" {
			restores++
		}
	}
	if restores != 3 {
		t.Errorf("it was tried %d times", restores)
	}
	b.resume()
	if got := b.until("running", running); got.Failure != nil {
		t.Errorf("the failure stays: %+v", got.Failure)
	}
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.folded()
}

func TestResumeRetries(t *testing.T) {
	b := newBench(t)
	v, n := b.asleep()
	b.images.set(func(s *faultyStore) { s.failGets = "/snaps/" })
	b.resume()
	b.until("a second attempt", func(v statekv.Versioned) bool { return v.Op != nil && v.Op.Attempts == 2 })
	b.images.set(func(s *faultyStore) { s.failGets = "" })
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
}

// A damaged, missing or exchanged image is told of at once, and not tried again.
func TestUnusableImage(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"gone": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"damaged": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"cut short": func(t *testing.T, path string) {
			if err := os.Truncate(path, 100); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, part := range []string{"snaps", "packs"} {
			t.Run(part+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				root := t.TempDir()
				b.images.Store = mustOpen(t, root)
				v, _ := b.asleep()
				paths, err := filepath.Glob(filepath.Join(root, "default", v.Lineage, part, "*"))
				b.must(err)
				if len(paths) == 0 {
					t.Fatalf("the image has no %s", part)
				}
				for _, p := range paths {
					spoil(t, p)
				}
				b.resume()
				got := b.until("a failure", made(schemas.TResumeFailed))
				if !suspended(got) || got.Failure == nil || got.Failure.Count != 1 || *got.Head != *v.Head {
					t.Errorf("%s, failure %+v", got.State, got.Failure)
				}
				b.isOnHost(v.UID, "")
			})
		}
	}
}

// A remove while the session is restored comes first: nothing ran.
func TestRemoveDuringResume(t *testing.T) {
	b := newBench(t)
	v, _ := b.asleep()
	entered, release := b.pause("Restore")
	b.resume()
	b.wait(entered)
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	calls := b.fake.Calls()
	close(release)
	b.until("removed", made(schemas.TRemoved))
	b.isOnHost(v.UID, "")
	if got := b.log(); strings.Contains(got, "resumed") {
		t.Errorf("the log is %s", got)
	}
	if left := b.objects("default/"); len(left) > 0 {
		t.Errorf("the store keeps %v", left)
	}
	b.crash()
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Restore" {
			t.Error("it was restored once more")
		}
	}
	b.folded()
}

func TestRemoveDuringStart(t *testing.T) {
	b := newBench(t)
	b.work()
	entered, release := b.pause("Start")
	v := b.asked("count")
	b.wait(entered)
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	close(release)
	b.until("removed", made(schemas.TRemoved))
	b.isOnHost(v.UID, "")
	if got := b.log(); strings.Contains(got, "started") {
		t.Errorf("the log is %s", got)
	}
}

// A resume while the frozen tree of the suspend is still there takes the image:
// the tree doesn't run again.
func TestResumeBeforeTheKill(t *testing.T) {
	b := newBench(t)
	v := b.run()
	n := b.count(v.UID)
	for range 2 {
		b.fake.Script("Stop", fake.Step{Before: errors.New("the kernel is busy")})
	}
	b.suspend(false)
	b.until("the kill to be due", in(schemas.Suspended))
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
}

// The restore fails, and yet the session runs: that is what counts.
func TestRestoreFailsAndTheSessionRuns(t *testing.T) {
	b := newBench(t)
	v, n := b.asleep()
	b.fake.Script("Restore", fake.Step{After: errors.New("the answer was lost")})
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.suspend(false)
	b.until("suspended", in(schemas.Suspended))
	b.folded()
}

// After the record says running the restore fails: the session is lost, and says
// so; its image is there and it can be resumed from it.
func TestRestoreFailsAfterItBegan(t *testing.T) {
	b := newBench(t)
	v, n := b.asleep()
	b.fake.Script("Restore", fake.Step{Dies: errors.New("criu died")})
	b.resume()
	got := b.until("failed", in(schemas.Failed))
	if got.Failure == nil || *got.Head != *v.Head {
		t.Errorf("failure %+v, head %v", got.Failure, got.Head)
	}
	b.isOnHost(v.UID, "")
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.folded()
}

// What can't be started at all is said after the record had it run: it is what it was, with the
// reason, and is tried again only if that may help.
func TestCannotBeStarted(t *testing.T) {
	b := newBench(t)
	b.fake.Late()
	b.fake.Script("Start", fake.Step{Undone: errors.New("busy")})
	v := b.run()
	n := b.count(v.UID)
	b.suspend(false)
	v = b.until("suspended", suspended)
	for _, c := range []struct {
		err   error
		times int
	}{{&driver.Error{Kind: driver.Refused, Text: "no such user"}, 1}, {errors.New("no such user"), 3}} {
		for range c.times {
			b.fake.Script("Restore", fake.Step{Undone: c.err})
		}
		b.resume()
		got := b.until("a failure", made(schemas.TResumeFailed))
		if !suspended(got) || got.Failure == nil || got.Failure.Count != c.times || got.Failure.Text != "no such user" || *got.Head != *v.Head {
			t.Errorf("%s, failure %+v, head %v", got.State, got.Failure, got.Head)
		}
	}
	b.resume()
	if got := b.until("running", made(schemas.TProved)); !running(got) || got.Failure != nil {
		t.Errorf("it is %s, with %+v", got.State, got.Failure)
	}
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	if log := b.log(); strings.Contains(log, "lost") {
		t.Errorf("the log is %s", log)
	}
	b.folded()
}

// What was to be started when its driver could no longer say anything, not even whether it
// runs: it is started again once the driver says that it doesn't, and is left alone if it does.
func TestUnheardOf(t *testing.T) {
	for name, s := range map[string]fake.Step{"nothing ran": {Undone: errors.New("the engine went away")}, "it ran": {After: errors.New("the engine went away")}} {
		b := newBench(t)
		b.fake.Late()
		in, out := make(chan struct{}, 1), make(chan struct{})
		s.Entered, s.Block = in, out
		b.fake.Script("Start", s)
		b.work()
		v := b.asked("count")
		b.wait(in)
		for range 3 {
			b.fake.Script("Inspect", fake.Step{Before: errors.New("the engine is away")})
		}
		close(out)
		b.until(name+": running", made(schemas.TProved))
		if log := b.log(); strings.Contains(log, "lost") || strings.Contains(log, "again") != (s.Undone != nil) {
			t.Errorf("%s: the log is %s", name, log)
		}
		b.isOnHost(v.UID, driver.Running)
		b.folded()
		b.crash()
	}
}

func TestLost(t *testing.T) {
	for _, captured := range []bool{false, true} {
		b := newBench(t)
		b.sweep = 50 * time.Millisecond
		v := b.run()
		advice := "resume --clean"
		if captured {
			b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
			b.until("a checkpoint", made(schemas.TCheckpointed))
			b.isOnHost(v.UID, driver.Running)
			advice = "from its last snapshot"
		}
		b.fake.Lose(v.UID)
		got := b.until("failed", in(schemas.Failed))
		if got.Failure == nil || !strings.Contains(got.Failure.Hint, advice) || got.Transition.Type != schemas.TLost {
			t.Errorf("%s, failure %+v, want advice: %s", got.Transition.Type, got.Failure, advice)
		}
		b.crash()
	}
}

func TestKill(t *testing.T) {
	b := newBench(t)
	v := b.run()
	b.change(schemas.Transition{Type: schemas.TKill, Set: schemas.Set{Op: b.op(schemas.OpKill)}})
	got := b.until("exited", in(schemas.Exited))
	if got.Exit == nil || got.Exit.Code != 137 {
		t.Errorf("exit %+v", got.Exit)
	}
	b.isOnHost(v.UID, "")
	op := b.op(schemas.OpStart)
	op.Boot = "clean"
	b.change(schemas.Transition{Type: schemas.TRestart, Set: schemas.Set{Op: op}})
	if again := b.until("running", running); again.Exit != nil || again.Boot != "clean" || again.Generation != 2 {
		t.Errorf("after a restart: exit %+v, boot %q, generation %d", again.Exit, again.Boot, again.Generation)
	}
	if n := b.count(v.UID); n != 1 {
		t.Errorf("started again it counts from %d", n)
	}
}

// The kill worked, and its worker didn't come to say so.
func TestKillIsRepeated(t *testing.T) {
	b := newBench(t)
	b.run()
	b.fake.Script("Stop", fake.Step{After: errors.New("the answer is lost")})
	b.change(schemas.Transition{Type: schemas.TKill, Set: schemas.Set{Op: b.op(schemas.OpKill)}})
	if got := b.until("an end", func(v statekv.Versioned) bool { return v.Op == nil }); got.State != schemas.Exited {
		t.Errorf("it is %s: %s", got.State, got.Transition.Reason)
	}
	b.folded()
}

// A fork that was made while its origin was deleted, by a client that was stopped before it
// could look, doesn't stay without anything to begin from.
func TestForkOfWhatIsGone(t *testing.T) {
	b := newBench(t)
	b.work()
	head := schemas.Head{Name: "default/gone/snaps/3-7", Digest: strings.Repeat("0", 64)}
	op := b.op(schemas.OpResume)
	op.Source, op.Boot = &head, "fork"
	spec, err := seal.Seal([]byte(`{"command":["count"]}`), b.key.Recipient())
	b.must(err)
	b.change(schemas.Transition{Type: schemas.TForkNew, Set: schemas.Set{Host: "h", Op: op, Head: &head, New: &schemas.NewSession{
		UID: "fork", Tenant: "default", Session: "work", Class: "web", Driver: "fake", Spec: spec, Lineage: "fork",
	}}})
	v := b.until("removed", made(schemas.TRemoved))
	if v.State != schemas.Deleted || v.Op != nil {
		t.Errorf("it is %s, op %+v", v.State, v.Op)
	}
	b.folded()
}

// A restore that fails twice with the same code of its driver isn't tried a third time, and
// one that the driver refuses not a second time.
func TestHopelessResume(t *testing.T) {
	for name, c := range map[string]struct {
		errs []driver.Error
		want int
	}{
		"the same code":   {[]driver.Error{{Code: "a"}, {Code: "a"}, {Code: "a"}}, 2},
		"different codes": {[]driver.Error{{Code: "a"}, {Code: "b"}, {Code: "a"}}, 3},
		"refused":         {[]driver.Error{{Kind: driver.Refused, Code: "a"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.asleep()
			for _, e := range c.errs {
				if e.Kind == "" {
					e.Kind = driver.Transient
				}
				e.Text = "no"
				b.fake.Script("Restore", fake.Step{Before: &e})
			}
			b.resume()
			got := b.until("a failure", made(schemas.TResumeFailed))
			if !suspended(got) || got.Failure == nil || got.Failure.Count != c.want {
				t.Errorf("%s, failure %+v, want %d attempts", got.State, got.Failure, c.want)
			}
		})
	}
}
