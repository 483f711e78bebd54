package simulation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// TestLives draws the lives of sessions. DIAPAUSE_SEED=N sees one of them again,
// DIAPAUSE_LIVES=N goes through more of them, DIAPAUSE_LONG=1 through fifty thousand.
func TestLives(t *testing.T) {
	lives, first := 200, uint64(time.Now().UnixNano())
	if os.Getenv("DIAPAUSE_LONG") != "" {
		lives = 50_000
	}
	if n, ok := number(t, "DIAPAUSE_LIVES"); ok {
		lives = int(n)
	}
	if n, ok := number(t, "DIAPAUSE_SEED"); ok {
		lives, first = 1, n
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a life leaves nothing, and takes little
	began, used := time.Now(), cpuTime(t)
	seen := all(t, first, lives)
	took, each := time.Since(began), (cpuTime(t)-used)/time.Duration(seen[schemas.TRun])
	t.Logf("%d lives in %s, %.0f a minute; %s of a core each; seeds from %d; transitions: %v", seen[schemas.TRun], took.Round(time.Millisecond),
		float64(seen[schemas.TRun])/took.Minutes(), each.Round(10*time.Microsecond), first, seen)
	if lives == 1 || t.Failed() {
		return
	}
	for _, want := range wanted {
		if seen[want] == 0 {
			t.Errorf("no life had the transition %s", want)
		}
	}
}

// cpuTime is what this process alone has taken of all cores.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wanted are the transitions that lives have to have between them: more are gone
// through until they have.
var wanted = []schemas.TransitionType{
	schemas.TStarted, schemas.TStartAgain, schemas.TSuspend, schemas.TSuspendAborted, schemas.TSuspendFailed, schemas.TSuspended, schemas.TRevived,
	schemas.TReaped, schemas.TResume, schemas.TResumed, schemas.TResumeAgain, schemas.TResumeFailed, schemas.TCheckpoint, schemas.TCheckpointed,
	schemas.TCheckpointFailed, schemas.TIdleRule,
}

// enough is how many times the lives that were asked for may be gone through.
const enough = 20

func number(t *testing.T, name string) (n uint64, ok bool) {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, s, err)
	}
	return n, true
}

// all goes through so many lives, on all cores, and counts their transitions.
func all(t *testing.T, first uint64, lives int) map[schemas.TransitionType]int {
	t.Helper()
	k := makeKeys(t)
	var mu sync.Mutex
	seen := map[schemas.TransitionType]int{}
	complete := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(wanted, func(w schemas.TransitionType) bool { return seen[w] == 0 })
	}
	var next atomic.Uint64
	t.Run("lives", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(core), func(t *testing.T) {
				t.Parallel()
				for {
					n := next.Add(1) - 1
					if t.Failed() || n >= uint64(lives) && (lives == 1 || n >= enough*uint64(lives) || complete()) {
						return
					}
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, k, first+n)
						defer w.verdict(first + n)
						w.live()
						mu.Lock()
						defer mu.Unlock()
						for _, v := range w.log() {
							seen[v.Transition.Type]++
						}
					})
				}
			})
		}
	})
	return seen
}

// verdict says how to see a life again that went wrong.
func (w *world) verdict(seed uint64) {
	if w.t.Failed() {
		w.t.Logf("see it again: DIAPAUSE_SEED=%d go test ./e2e/simulation -run TestLives -v", seed)
	}
}

// live is one session's life: it starts, has its adventures, and when the faults
// are over can be used and suspended as if nothing had been.
func (w *world) live() {
	defer w.close()
	w.start()
	for range 1 + w.draw(9) {
		w.event()
		w.pass()
	}
	w.settle()
}

func (w *world) start() {
	w.beginWorker()
	w.beginScheduler()
	grace := []int64{1_000, 30_000, 300_000}[w.draw(3)]
	op := &schemas.Op{ID: "run", Kind: schemas.OpStart, Deadline: time.Now().Add(10 * time.Minute)}
	_, err := w.records.Swap(context.Background(), statekv.Versioned{}, schemas.Transition{Type: schemas.TRun, Reason: "asked to run", Op: op.ID, Set: schemas.Set{
		Host: "h", Op: op, Idle: &schemas.Idle{Grace: grace},
		New: &schemas.NewSession{
			UID: w.uid, Tenant: w.name.Tenant, Session: w.name.Session, Class: "web", Driver: "fake", MadeBy: "person", Program: "count",
			Spec: w.keys.spec, Lineage: string(w.uid),
		},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.until("running", func(v statekv.Versioned) bool { return v.State != schemas.Starting })
}

// pass lets time go by: mostly little, so that things meet.
func (w *world) pass() {
	most := 50 * time.Millisecond
	switch n := w.draw(10); {
	case n == 9:
		most = 7 * time.Minute
	case n >= 6:
		most = 5 * time.Second
	}
	time.Sleep(time.Duration(w.draw(int(most)) + 1))
	w.count()
}

// count lets the session count one, if it runs at the moment: without a gap and
// without going back, since no one rolls it back, and only where its record says that
// it does.
func (w *world) count() {
	n, ok := w.host.Count(w.uid)
	if !ok {
		return
	}
	if n != w.counted+1 {
		w.t.Fatalf("the session counted to %d, and goes on with %d:\n%s", w.counted, n, w.story())
	}
	w.counted = n
	switch state := w.now().State; state {
	case schemas.Running, schemas.Suspending:
	default:
		w.t.Fatalf("the session counts to %d, and its record says %s:\n%s", n, state, w.story())
	}
}

func (w *world) event() {
	events := []func(){w.verb, w.verb, w.verb, w.otherRule, w.activity, w.activity, w.driverFault, w.storeFault, w.crashWorker, w.crashWorker, w.crashScheduler}
	events[w.draw(len(events))]()
	w.check()
}

func (w *world) check() {
	if broken := w.host.Complaints(); len(broken) > 0 {
		w.t.Fatalf("%s\n%s", strings.Join(broken, "\n"), w.story())
	}
}

func (w *world) verb() {
	verb := []string{"suspend", "suspend", "checkpoint", "resume"}[w.draw(4)]
	w.tell("asked to %s", verb)
	w.background.Go(func() { w.ask(verb) })
}

// otherRule changes the record also during an operation, which has to go on.
func (w *world) otherRule() {
	grace := []int64{1_000, 30_000, 300_000}[w.draw(3)]
	w.tell("the grace is %d ms from now on", grace)
	w.background.Go(func() {
		r, ctx := records{w.records, w.client}, context.Background()
		v, err := r.Get(ctx, w.name)
		if err == nil {
			_, err = r.Swap(ctx, v, schemas.Transition{Type: schemas.TIdleRule, Reason: "asked to", Actor: "client", Set: schemas.Set{Idle: &schemas.Idle{Grace: grace}}})
		}
		if err != nil && !errors.Is(err, statekv.ErrConflict) {
			w.host.Complain("another rule: %v", err)
		}
	})
}

func (w *world) activity() {
	kind := []schemas.Kind{schemas.KindInput, schemas.KindInput, schemas.KindHeartbeat, schemas.KindOutput, schemas.KindHold}[w.draw(5)]
	m := session.Message{Source: schemas.Source{Name: w.name, Kind: kind}}
	if kind == schemas.KindHold {
		m.Source.Key, m.Activity.TTL = "x", schemas.Duration(20*time.Second)
	}
	w.tell("%s, accepted as %d", kind, w.wire.say(m))
}

func (w *world) driverFault() {
	method := []string{"Capture", "Thaw", "Restore", "Stop"}[w.draw(4)]
	fault := errors.New("a fault of the driver")
	step := fake.Step{Before: fault}
	if method != "Restore" && w.chance(50) { // that one would lose the session, by what a driver promises
		step = fake.Step{After: fault}
	}
	w.tell("the next %s fails, after its work: %t", method, step.After != nil)
	w.host.Script(method, step)
}

func (w *world) storeFault() {
	part := []string{"", "", "/keys/", "/packs/", "/snaps/"}[w.draw(5)]
	w.tell("the store fails for %q", part)
	w.shop.fail(part)
}

func (w *world) crashWorker() {
	w.tell("the worker is killed")
	w.worker.kill()
	w.host.crashed()
	if w.chance(50) {
		w.pass()
		w.activity()
	}
	w.beginWorker()
	w.tell("a new worker is ready")
}

func (w *world) crashScheduler() {
	w.tell("the scheduler is killed")
	w.scheduler.kill()
	if w.chance(50) {
		w.pass()
	}
	w.beginScheduler()
	w.tell("a new scheduler is ready")
}

// settle ends the faults, and shows that all is well.
func (w *world) settle() {
	w.tell("no more faults")
	w.host.Forget()
	w.shop.fail("")
	w.use()
	w.rest()
	w.use()
	all := w.log()
	for i, v := range all {
		if v.Version != uint64(i+1) {
			w.t.Fatalf("version %d comes in place %d:\n%s", v.Version, i+1, w.story())
		}
	}
	if len(all) > 400 {
		w.t.Fatalf("this life took %d revisions:\n%s", len(all), w.story())
	}
	w.check()
}

// use has the session wanted until it runs, and counts.
func (w *world) use() {
	w.until("running", func(v statekv.Versioned) bool {
		i, err := w.host.Inspect(context.Background(), w.uid)
		if v.State == schemas.Running && v.Op == nil && err == nil && i.State == driver.Running {
			return true
		}
		if v.State == schemas.Suspended || v.State == schemas.Suspending {
			w.wire.say(session.Message{Source: schemas.Source{Name: w.name, Kind: schemas.KindInput}})
			time.Sleep(2 * time.Second)
		}
		return false
	})
	before := w.counted
	for w.count(); w.counted == before; w.count() {
		time.Sleep(10 * time.Millisecond) // it was suspended again just now
		if v := w.now(); v.State == schemas.Suspended {
			w.wire.say(session.Message{Source: schemas.Source{Name: w.name, Kind: schemas.KindInput}})
			time.Sleep(2 * time.Second)
		}
	}
}

// rest has it suspended, by request or by itself, and looks that nothing of it is
// left on the host.
func (w *world) rest() {
	w.until("suspended", func(v statekv.Versioned) bool {
		if v.State == schemas.Suspended && v.Op == nil {
			return true
		}
		w.ask("suspend")
		time.Sleep(time.Second)
		return false
	})
	if n, live := w.host.Counter(w.uid); live {
		if v := w.now(); v.State == schemas.Suspended && v.Op == nil {
			w.t.Fatalf("the session is suspended, and a tree that has counted to %d is there:\n%s", n, w.story())
		}
	}
	if kept, err := w.counterIn(*w.now().Head); err != nil || kept != w.counted {
		w.t.Fatal(fmt.Sprintf("its image has counted to %d, it had to %d: %v\n", kept, w.counted, err), w.story())
	}
}
