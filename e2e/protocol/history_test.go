package protocol_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
)

// history is one session's life among clients, activity, crashes and faults.
type history struct {
	h        *host
	t        *rapid.T
	name     schemas.Name
	uid      schemas.UID
	orderly  bool // no one kills it, starts it again or rolls it back: it counts without a gap
	counted  int
	calls    sync.WaitGroup
	blocked  []chan struct{}
	mu       sync.Mutex
	restarts bool // the API or the server was away: a request may be without an answer
	answers  []string
}

// For all that clients, activity, crashes and failing parts do to a session, in
// any order: no tree is killed before its image is durable and the record
// points at it, none runs twice, it goes on exactly where it was, everyone who
// asks gets an answer, the log gives the record back, and when the faults stop
// the session can be used, suspended and removed without a trace.
func TestHistories(t *testing.T) {
	checks := "15"
	if os.Getenv("DIAPAUSE_LONG") != "" {
		checks = "2000"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, t.TempDir)
	h.images = &shop{Store: h.disk}
	watched := h.watched()
	h.driver = watched
	h.beginAll()
	defer h.close()
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		defer func() { h.t = t }()
		number++
		y := &history{h: h, t: rt, name: schemas.Name{Tenant: "default", Session: schemas.SessionID(fmt.Sprint("s", number))}}
		watched.Complaints()
		y.begin()
		for range rapid.IntRange(4, 20).Draw(rt, "steps") {
			y.step()
		}
		y.settle()
		if c := watched.Complaints(); len(c) > 0 {
			rt.Fatalf("%s", strings.Join(c, "\n"))
		}
	})
	h.audited()
}

func (y *history) begin() {
	y.orderly = rapid.Bool().Draw(y.t, "orderly")
	req := runRequest(y.name.String(), "count")
	req.Run.Idle = &schemas.Idle{Grace: rapid.SampledFrom([]int64{30, 150, 60_000}).Draw(y.t, "grace")}
	y.uid = y.h.do("run", req).UID
}

func (y *history) step() {
	steps := map[string]func(){
		"ask": y.ask, "say": y.say, "count": y.count, "wait": y.wait, "driver": y.driverFault, "store": y.storeFault,
		"worker": y.crashWorker, "services": y.crashServices,
	}
	// The first are the usual ones.
	names := []string{"ask", "ask", "ask", "say", "say", "count", "count", "wait", "wait", "wait", "driver", "driver", "store", "worker", "worker", "services"}
	steps[rapid.SampledFrom(names).Draw(y.t, "step")]()
}

func (y *history) ask() {
	verbs := []string{"suspend", "suspend", "ensure", "ensure", "resume", "checkpoint", "show", "list"}
	if !y.orderly {
		verbs = append(verbs, "kill", "clean", "rollback")
	}
	verb := rapid.SampledFrom(verbs).Draw(y.t, "verb")
	req := schemas.Request{Name: y.name.String(), Wait: schemas.Duration(2 * time.Second)}
	switch verb {
	case "clean":
		verb, req.Clean = "resume", true
	case "rollback":
		var all []schemas.SnapshotView
		if err := y.h.ask("snapshots", req, &all); err != nil || len(all) == 0 {
			return
		}
		req.Snapshot = all[rapid.IntRange(0, len(all)-1).Draw(y.t, "snapshot")].ID
	}
	y.calls.Go(func() {
		var out any
		err := y.h.ask(verb, req, &out)
		y.mu.Lock()
		defer y.mu.Unlock()
		y.answers = append(y.answers, fmt.Sprintf("%s: %v", verb, err))
		switch c := code(err); c {
		case "", schemas.CodeState, schemas.CodeFailed, schemas.CodeTimeout, schemas.CodeUsage:
		default:
			if !y.restarts {
				y.answers = append(y.answers, "UNEXPECTED "+c)
			}
		}
	})
}

func (y *history) say() {
	kind := rapid.SampledFrom([]schemas.Kind{schemas.KindInput, schemas.KindHeartbeat, schemas.KindOutput, schemas.KindHold}).Draw(y.t, "kind")
	a, key := schemas.Activity{}, ""
	if kind == schemas.KindHold {
		key, a.TTL = "h", schemas.Duration(50*time.Millisecond)
	}
	if _, err := (stream.Publisher{JS: y.h.js}).Activity(y.h.ctx, y.name, kind, key, a); err != nil {
		y.t.Fatal(err)
	}
}

// count lets the session count one, if it runs at the moment.
func (y *history) count() {
	n, ok := y.h.fake.Count(y.uid)
	if ok && y.orderly && n != y.counted+1 {
		y.t.Fatalf("session %s counted to %d, and goes on with %d", y.name, y.counted, n)
	}
	if ok {
		y.counted = n
	}
}

// wait lets time pass, for things to meet in other ways.
func (y *history) wait() {
	time.Sleep(time.Duration(rapid.IntRange(0, 60).Draw(y.t, "ms")) * time.Millisecond)
}

func (y *history) driverFault() {
	fault := errors.New("a fault of the driver")
	method := rapid.SampledFrom([]string{"Capture", "Thaw", "Restore", "Stop"}).Draw(y.t, "method")
	switch rapid.SampledFrom([]string{"before", "after", "block"}).Draw(y.t, "fault") {
	case "before":
		y.h.fake.Script(method, fake.Step{Before: fault})
	case "after":
		if method != "Restore" { // that one loses the session, by what a driver promises
			y.h.fake.Script(method, fake.Step{After: fault})
		}
	case "block":
		ch := make(chan struct{})
		y.blocked = append(y.blocked, ch)
		y.h.fake.Script(method, fake.Step{Block: ch})
	}
}

func (y *history) storeFault() {
	parts := []string{"", "", "/keys/", "/packs/", "/snaps/"}
	y.h.images.(*shop).fail(rapid.SampledFrom(parts).Draw(y.t, "puts"), rapid.SampledFrom(parts).Draw(y.t, "gets"))
}

func (y *history) crashWorker() {
	y.h.worker.end(y.t)
	if rapid.Bool().Draw(y.t, "stays away for a while") {
		y.say()
		y.wait()
	}
	y.h.beginWorker()
}

func (y *history) disturb() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.restarts = true
}

func (y *history) crashServices() {
	y.disturb()
	y.h.api.end(y.t)
	y.h.sched.end(y.t)
	y.h.beginServices()
}

// settle stops the faults, and shows that all is well.
func (y *history) settle() {
	y.h.fake.Forget()
	y.h.images.(*shop).fail("", "")
	for _, ch := range y.blocked {
		close(ch)
	}
	y.calls.Wait()
	for _, a := range y.answers {
		y.t.Log(a)
		if strings.Contains(a, "UNEXPECTED") {
			y.t.Errorf("an answer that is none: %s", a)
		}
	}
	y.use()
	y.count()
	at := y.counted
	y.suspended()
	y.use()
	if y.count(); y.counted != at+1 {
		y.t.Fatalf("at rest session %s counted to %d, and goes on with %d", y.name, at, y.counted)
	}
	y.t.Log(y.log())
	y.remove()
}

// use brings the session to run, as a client would that is told how.
func (y *history) use() {
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		rec := y.h.get(y.name.String())
		req := schemas.Request{Name: y.name.String()}
		verb := "ensure"
		if rec.State == schemas.Exited && !y.orderly {
			verb, req.Clean = "resume", true
		}
		var out any
		err = y.h.ask(verb, req, &out)
		if c := code(err); c != "" && c != schemas.CodeState && c != schemas.CodeFailed && !strings.HasPrefix(c, "no answer") {
			break
		}
		if _, live := y.h.fake.Counter(y.uid); err == nil && live {
			if i, ierr := y.h.fake.Inspect(y.h.ctx, y.uid); ierr == nil && i.State == "running" {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	y.t.Fatalf("session %s can't be used any more: %v; %s", y.name, err, y.log())
}

// suspended brings it to rest. Its own idling may be quicker.
func (y *history) suspended() {
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		var out any
		if err = y.h.ask("suspend", schemas.Request{Name: y.name.String()}, &out); err != nil {
			continue // an older thing undid it
		}
		if v := y.h.get(y.name.String()); v.State == schemas.Suspended && v.Op == nil {
			if n, live := y.h.fake.Counter(y.uid); live {
				y.t.Fatalf("session %s is suspended, and a tree that has counted to %d is there", y.name, n)
			}
			return
		}
	}
	y.t.Fatalf("session %s can't be suspended any more: %v; %s", y.name, err, y.log())
}

func (y *history) remove() {
	y.h.do("rm", schemas.Request{Name: y.name.String()})
	y.h.until(y.name.String(), "removed", func(v statekv.Versioned) bool { return v.State == schemas.Deleted && v.Op == nil })
	if _, live := y.h.fake.Counter(y.uid); live {
		y.t.Errorf("session %s is removed, its tree isn't", y.name)
	}
	var left []string
	y.h.must(y.h.disk.List(y.h.ctx, "default/", func(i objectstore.Info) error {
		left = append(left, i.Name)
		return nil
	}))
	if len(left) > 0 {
		y.t.Errorf("session %s is removed, the store keeps %v", y.name, left)
	}
	all, err := y.h.records.History(y.h.ctx, y.name)
	y.h.must(err)
	if len(all) > 600 {
		y.t.Errorf("the life of session %s took %d revisions", y.name, len(all))
	}
	y.folded()
}

// folded checks that the session's log gives every record back, as the audit does
// for all of them in the end.
func (y *history) folded() {
	all, err := y.h.records.History(y.h.ctx, y.name)
	y.h.must(err)
	var prev schemas.SessionRecord
	for _, v := range all {
		next, err := session.Apply(prev, v.Transition)
		y.h.must(err)
		want, _ := json.Marshal(next)
		if got, _ := json.Marshal(v.SessionRecord); string(got) != string(want) {
			y.t.Fatalf("version %d is\n%s\nits transition makes\n%s", v.Version, got, want)
		}
		prev = v.SessionRecord
	}
}

// log gives the session's transitions.
func (y *history) log() string {
	all, err := y.h.records.History(y.h.ctx, y.name)
	y.h.must(err)
	var out []string
	for _, v := range all {
		out = append(out, string(v.Transition.Type))
	}
	return strings.Join(slices.Compact(out), " ")
}
