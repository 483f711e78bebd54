package statekvtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Records keeps session records: all that workers and schedulers ask of it. statekv.Store
// says what each method promises.
type Records interface {
	Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error
	History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
	Log(ctx context.Context, fn func(statekv.Versioned) error) error
	All(ctx context.Context) ([]statekv.Versioned, error)
}

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// Test holds a keeper of records to what its readers and writers rely on. open gives one
// that has no records.
func Test(t *testing.T, open func(t *testing.T) Records) {
	for name, test := range map[string]func(*testing.T, Records){
		"Swap": testSwap, "Refused": testRefused, "Unknown": testUnknown, "Race": testRace, "Again": testNameAgain,
		"Own": testCopies, "Watch": testWatch, "WatchEnds": testWatchEnds, "Log": testLog, "NoSession": testNoSession,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func name(id string) schemas.Name {
	return schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}
}

// run is the transition that makes a session.
func run(id string) schemas.Transition {
	return schemas.Transition{Type: schemas.TRun, Reason: "asked to", Actor: "test", Set: schemas.Set{
		New: &schemas.NewSession{UID: schemas.UID("uid-" + id), Tenant: "acme", Session: schemas.SessionID(id), Class: "web"},
		Op:  &schemas.Op{ID: "o1", Kind: schemas.OpStart}, Host: "h", Idle: &schemas.Idle{Grace: 5000},
	}}
}

func swap(t *testing.T, r Records, prev statekv.Versioned, tr schemas.Transition) statekv.Versioned {
	t.Helper()
	next, err := r.Swap(t.Context(), prev, tr)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func get(t *testing.T, r Records, id string) statekv.Versioned {
	t.Helper()
	v, err := r.Get(t.Context(), name(id))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A swap's answer is the record that Get gives next, with an id, a time and a revision.
func testSwap(t *testing.T, r Records) {
	first := swap(t, r, statekv.Versioned{}, run("a"))
	if first.Version != 1 || first.State != schemas.Starting || first.Transition.ID == "" || first.Transition.At.IsZero() || first.Rev == (statekv.Revision{}) {
		t.Errorf("the first swap gives %+v", first)
	}
	at := time.Date(2026, 5, 1, 9, 30, 0, 0, time.UTC)
	second := swap(t, r, first, schemas.Transition{Type: schemas.TStarted, At: at, ID: "mine"})
	if second.Transition.ID == first.Transition.ID || second.Transition.ID == "mine" || !second.Transition.At.Equal(at) || second.Rev.Seq() <= first.Rev.Seq() {
		t.Errorf("the second swap gives %+v after %+v", second, first)
	}
	got := get(t, r, "a")
	if got.Stored.IsZero() {
		t.Error("it isn't said when the log took it")
	}
	if second.Stored = got.Stored; !same(got, second) {
		t.Errorf("the record is %+v, the swap gave %+v", got, second)
	}
	// What was read can be swapped as what a swap gave.
	swap(t, r, got, schemas.Transition{Type: schemas.TIdleRule})
}

// A swap on top of another revision than the last, or that may not be, changes nothing.
func testRefused(t *testing.T, r Records) {
	first := swap(t, r, statekv.Versioned{}, run("a"))
	second := swap(t, r, first, schemas.Transition{Type: schemas.TStarted})
	for what, c := range map[string]struct {
		prev statekv.Versioned
		t    schemas.Transition
		want error
	}{
		"a revision that isn't the last": {first, schemas.Transition{Type: schemas.TStartFailed}, statekv.ErrConflict},
		"a second session of the name":   {statekv.Versioned{}, run("a"), statekv.ErrConflict},
		"what the state doesn't allow":   {second, schemas.Transition{Type: schemas.TResumed}, session.ErrIllegal},
	} {
		if got, err := r.Swap(t.Context(), c.prev, c.t); !errors.Is(err, c.want) || got.Version != 0 {
			t.Errorf("%s: version %d, %v, want %v", what, got.Version, err, c.want)
		}
	}
	if got := get(t, r, "a"); got.Rev != second.Rev || got.Version != 2 {
		t.Errorf("the record is version %d at %v, want 2 at %v", got.Version, got.Rev, second.Rev)
	}
}

// A swap whose context has ended may have happened: its answer is ErrUnknown, and the same
// revision can be swapped once more or never.
func testUnknown(t *testing.T, r Records) {
	first := swap(t, r, statekv.Versioned{}, run("a"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Swap(ended, first, schemas.Transition{Type: schemas.TStarted}); !errors.Is(err, statekv.ErrUnknown) {
		t.Fatalf("%v, want that it isn't known", err)
	}
	if _, err := r.Get(ended, name("a")); err == nil {
		t.Error("a read whose context has ended has an answer")
	}
	_, err := r.Swap(t.Context(), first, schemas.Transition{Type: schemas.TStarted})
	if err != nil && !errors.Is(err, statekv.ErrConflict) {
		t.Error(err)
	}
	if got := get(t, r, "a"); got.Version != 2 || got.State != schemas.Running {
		t.Errorf("the record is version %d, %s", got.Version, got.State)
	}
}

// Many writers, each on top of what it last read: every version is written once, and the
// log folds to the record.
func testRace(t *testing.T, r Records) {
	swap(t, r, swap(t, r, statekv.Versioned{}, run("a")), schemas.Transition{Type: schemas.TStarted})
	const writers, each = 8, 20
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for done := 0; done < each; {
				v, err := r.Get(t.Context(), name("a"))
				if err == nil {
					_, err = r.Swap(t.Context(), v, schemas.Transition{Type: schemas.TIdleRule})
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, statekv.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	history, err := r.History(t.Context(), name("a"))
	if err != nil || len(history) != 2+writers*each {
		t.Fatalf("%d revisions, %v, want %d", len(history), err, 2+writers*each)
	}
	var folded schemas.SessionRecord
	for i, v := range history {
		if v.Version != uint64(i+1) {
			t.Fatalf("revision %d has version %d", i+1, v.Version)
		}
		if folded, err = session.Apply(folded, v.Transition); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, r, "a"); !reflect.DeepEqual(folded.Transition.ID, got.Transition.ID) || folded.State != got.State {
		t.Errorf("the folded log gives %+v, the record is %+v", folded, got)
	}
}

// A name is used again on top of the revision that says that its session is gone.
func testNameAgain(t *testing.T, r Records) {
	v := swap(t, r, statekv.Versioned{}, run("a"))
	v = swap(t, r, v, schemas.Transition{Type: schemas.TStarted})
	v = swap(t, r, v, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "o2", Kind: schemas.OpRemove}}})
	v = swap(t, r, v, schemas.Transition{Type: schemas.TRemoved})
	if _, err := r.Swap(t.Context(), statekv.Versioned{}, run("a")); !errors.Is(err, statekv.ErrConflict) {
		t.Errorf("on top of nothing: %v, want a conflict", err)
	}
	if again := swap(t, r, v, run("a")); again.Version != v.Version+1 || again.State != schemas.Starting {
		t.Errorf("the second session is %+v", again)
	}
}

// What a caller does to a record that it was given changes no other's.
func testCopies(t *testing.T, r Records) {
	first := swap(t, r, statekv.Versioned{}, run("a"))
	first.Idle.Grace = 1
	got := get(t, r, "a")
	got.Op.ID = "changed"
	if v := get(t, r, "a"); v.Idle.Grace != 5000 || v.Op.ID != "o1" {
		t.Errorf("the record has the grace %d and the op %s", v.Idle.Grace, v.Op.ID)
	}
}

// A watcher gets the last revision of each record, is told that this was all, and gets each
// revision that follows, in the order of the log. One that glances gets the same at a glance.
func testWatch(t *testing.T, r Records) {
	a := swap(t, r, statekv.Versioned{}, run("a"))
	swap(t, r, statekv.Versioned{}, run("b"))
	a = swap(t, r, a, schemas.Transition{Type: schemas.TStarted})
	w := watch(t, r)
	w.wants("b 1", "a 2")
	a = swap(t, r, a, schemas.Transition{Type: schemas.TIdleRule})
	swap(t, r, statekv.Versioned{}, run("c"))
	swap(t, r, a, schemas.Transition{Type: schemas.TIdleRule})
	w.wants("a 3", "c 1", "a 4")
	w.end()
	for n, g := range w.glances {
		g.Stored = w.seen[n].Stored
		if want := statekv.GlanceOf(w.seen[n]); !reflect.DeepEqual(g, want) {
			t.Errorf("a glance is %+v, want %+v", g, want)
		}
	}
}

// watcher collects what the two kinds of watchers get.
type watcher struct {
	t       *testing.T
	stop    context.CancelFunc
	ended   chan error
	all     chan statekv.Versioned
	quick   chan statekv.Glance
	seen    []statekv.Versioned
	glances []statekv.Glance
}

// watch begins both, and returns when they have caught up.
func watch(t *testing.T, r Records) *watcher {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{t: t, stop: stop, ended: make(chan error, 2), all: make(chan statekv.Versioned, 100), quick: make(chan statekv.Glance, 100)}
	caughtUp := make(chan struct{}, 4)
	go func() {
		w.ended <- r.Watch(ctx, func(v statekv.Versioned) { w.all <- v }, func() { caughtUp <- struct{}{} })
	}()
	go func() {
		w.ended <- r.Glances(ctx, func(g statekv.Glance) { w.quick <- g }, func() { caughtUp <- struct{}{} })
	}()
	for range 2 {
		select {
		case <-caughtUp:
		case <-time.After(limit):
			t.Fatal("a watcher doesn't catch up")
		}
	}
	return w
}

// wants fails the test unless the next revisions are these.
func (w *watcher) wants(revisions ...string) {
	w.t.Helper()
	var got []string
	for range revisions {
		select {
		case v := <-w.all:
			w.seen, got = append(w.seen, v), append(got, fmt.Sprint(v.Session, " ", v.Version))
		case <-time.After(limit):
			w.t.Fatalf("watched %q, want %q", got, revisions)
		}
		select {
		case g := <-w.quick:
			w.glances = append(w.glances, g)
		case <-time.After(limit):
			w.t.Fatalf("glanced at %d revisions, want %d", len(w.glances), len(w.seen))
		}
	}
	if !slices.Equal(got, revisions) {
		w.t.Errorf("watched %q, want %q", got, revisions)
	}
}

func (w *watcher) end() {
	w.t.Helper()
	w.stop()
	for range 2 {
		select {
		case err := <-w.ended:
			if err != nil {
				w.t.Errorf("a watcher ended with %v", err)
			}
		case <-time.After(limit):
			w.t.Fatal("a watcher doesn't end")
		}
	}
}

// A watcher of nothing has caught up at once, and ends with its context.
func testWatchEnds(t *testing.T, r Records) {
	w := watch(t, r)
	swap(t, r, statekv.Versioned{}, run("a"))
	w.wants("a 1")
	w.end()
}

// The log has every revision of all records in one order, which is that of their revisions;
// a reader that fails is not called again.
func testLog(t *testing.T, r Records) {
	a := swap(t, r, statekv.Versioned{}, run("a"))
	b := swap(t, r, statekv.Versioned{}, run("b"))
	swap(t, r, a, schemas.Transition{Type: schemas.TStarted})
	swap(t, r, b, schemas.Transition{Type: schemas.TStarted})
	var log []statekv.Versioned
	if err := r.Log(t.Context(), func(v statekv.Versioned) error { log = append(log, v); return nil }); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, v := range log {
		got = append(got, fmt.Sprint(v.Session, " ", v.Version))
		if i > 0 && v.Rev.Seq() <= log[i-1].Rev.Seq() {
			t.Errorf("revision %d follows %d", v.Rev.Seq(), log[i-1].Rev.Seq())
		}
	}
	if want := []string{"a 1", "b 1", "a 2", "b 2"}; !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
	history, err := r.History(t.Context(), name("a"))
	if err != nil || len(history) != 2 || !same(history[0], log[0]) || !same(history[1], log[2]) {
		t.Errorf("the history is %+v, %v", history, err)
	}
	all, err := r.All(t.Context())
	if err != nil || len(all) != 2 || !same(all[0], log[2]) || !same(all[1], log[3]) {
		t.Errorf("all records are %+v, %v", all, err)
	}
	enough, calls := errors.New("enough"), 0
	err = r.Log(t.Context(), func(statekv.Versioned) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("a reader that fails is called %d times: %v", calls, err)
	}
}

// A key that was never written has neither record nor history; that isn't a fault of the log.
func testNoSession(t *testing.T, r Records) {
	if _, err := r.Get(t.Context(), name("a")); !errors.Is(err, statekv.ErrNoSession) {
		t.Errorf("its record: %v", err)
	}
	if _, err := r.History(t.Context(), name("a")); !errors.Is(err, statekv.ErrNoSession) {
		t.Errorf("its history: %v", err)
	}
	all, err := r.All(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("all records: %v, %v", all, err)
	}
	if err := r.Log(t.Context(), func(statekv.Versioned) error { return errors.New("there is one") }); err != nil {
		t.Errorf("the log: %v", err)
	}
}

// same compares revisions. Times are the same moments.
func same(a, b statekv.Versioned) bool {
	if !a.Stored.Equal(b.Stored) || a.Rev != b.Rev {
		return false
	}
	x, y := a.SessionRecord, b.SessionRecord
	for _, r := range []*schemas.SessionRecord{&x, &y} {
		r.Since, r.Created, r.Transition.At = r.Since.UTC(), r.Created.UTC(), r.Transition.At.UTC()
	}
	return reflect.DeepEqual(x, y)
}
