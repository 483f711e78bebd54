package protocol_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// states brings a session named work to each state that lasts.
var states = map[schemas.State]func(h *host){
	"": func(*host) {},
	schemas.Running: func(h *host) {
		h.run("work")
	},
	schemas.Suspended: func(h *host) {
		h.run("work")
		h.do("suspend", schemas.Request{Name: "work"})
	},
	schemas.Exited: func(h *host) {
		v := h.run("work")
		h.fake.Exit(v.UID, 5)
		h.until("work", "exited", func(v statekv.Versioned) bool { return v.State == schemas.Exited })
	},
	schemas.Failed: func(h *host) {
		v := h.run("work")
		h.do("checkpoint", schemas.Request{Name: "work"})
		h.count(v.UID) // it runs on
		h.fake.Lose(v.UID)
		h.until("work", "failed", func(v statekv.Versioned) bool { return v.State == schemas.Failed })
	},
	schemas.Deleted: func(h *host) {
		h.run("work")
		h.do("rm", schemas.Request{Name: "work"})
	},
}

// What each verb answers in each state, and where it leaves the session.
func TestVerbs(t *testing.T) {
	const no, ok = schemas.CodeNoSession, ""
	type answers map[schemas.State]string // the code, or the state that it leads to
	const toRunning, toSuspended, toExited, toDeleted = "→ running", "→ suspended", "→ exited", "→ deleted"
	const refused, usage = schemas.CodeState, schemas.CodeUsage
	work := schemas.Request{Name: "work"}
	for verb, c := range map[string]struct {
		req  schemas.Request
		want answers
	}{
		"run": {runRequest("work", "count"), answers{
			"": toRunning, "running": refused, "suspended": refused, "exited": refused, "failed": refused, "deleted": toRunning}},
		"suspend": {work, answers{
			"": no, "running": toSuspended, "suspended": toSuspended, "exited": refused, "failed": refused, "deleted": no}},
		"resume": {work, answers{
			"": no, "running": toRunning, "suspended": toRunning, "exited": refused, "failed": toRunning, "deleted": no}},
		"resume --clean": {schemas.Request{Name: "work", Clean: true}, answers{
			"": no, "running": refused, "suspended": toRunning, "exited": toRunning, "failed": toRunning, "deleted": no}},
		"ensure": {work, answers{
			"": no, "running": toRunning, "suspended": toRunning, "exited": refused, "failed": refused, "deleted": no}},
		"checkpoint": {work, answers{
			"": no, "running": toRunning, "suspended": refused, "exited": refused, "failed": refused, "deleted": no}},
		"rm": {work, answers{
			"": no, "running": toDeleted, "suspended": toDeleted, "exited": toDeleted, "failed": toDeleted, "deleted": no}},
		"kill": {work, answers{
			"": no, "running": toExited, "suspended": refused, "exited": refused, "failed": refused, "deleted": no}},
		"fork": {schemas.Request{Name: "work", To: "twin"}, answers{
			"": no, "running": toRunning, "suspended": toSuspended, "exited": refused, "failed": refused, "deleted": no}},
		"rollback": {schemas.Request{Name: "work", Snapshot: "7-7"}, answers{
			"": no, "running": usage, "suspended": usage, "exited": usage, "failed": usage, "deleted": no}},
		"replace": {work, answers{
			"": no, "running": refused, "suspended": refused, "exited": refused, "failed": refused, "deleted": no}},
		"accept": {work, answers{
			"": no, "running": refused, "suspended": refused, "exited": refused, "failed": refused, "deleted": no}},
		"reject": {work, answers{
			"": no, "running": refused, "suspended": refused, "exited": refused, "failed": refused, "deleted": no}},
		"dismiss":     {work, answers{"": no, "running": ok, "suspended": ok, "exited": ok, "failed": ok, "deleted": no}},
		"snapshots":   {work, answers{"": no, "running": ok, "suspended": ok, "exited": ok, "failed": ok, "deleted": no}},
		"show":        {work, answers{"": no, "running": ok, "suspended": ok, "exited": ok, "failed": ok, "deleted": no}},
		"history":     {work, answers{"running": ok, "suspended": ok, "exited": ok, "failed": ok, "deleted": ok}},
		"snapshot_rm": {schemas.Request{Name: "work", Snapshot: "7-7"}, answers{"": no, "running": usage, "suspended": usage, "exited": usage, "failed": usage, "deleted": no}},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			for state, want := range c.want {
				states[state](h)
				call, _, _ := strings.Cut(verb, " ")
				var out any
				err := h.ask(call, c.req, &out)
				end, leads := strings.CutPrefix(want, "→ ")
				if leads && err != nil || !leads && code(err) != want {
					t.Errorf("%s a session that is %q: %v, want %q", verb, state, err, want)
				}
				if leads {
					if got := h.get("work").State; string(got) != end {
						t.Errorf("%s leaves a session that was %q %s, want %s", verb, state, got, end)
					}
				}
				for _, n := range []string{"twin", "work"} {
					if err := h.ask("rm", schemas.Request{Name: n}, &out); err != nil && code(err) != no {
						t.Fatal(err)
					}
				}
			}
			h.audited()
		})
	}
}

func TestBadRequests(t *testing.T) {
	h := start(t)
	h.run("work")
	bad := runRequest("other", "count")
	bad.Run.Class = "nonsense"
	made := runRequest("other", "count")
	made.Run.MadeBy = "stranger"
	driverless := runRequest("other", "count")
	driverless.Run.Driver = "docker"
	for what, c := range map[string]struct {
		verb string
		req  schemas.Request
		want string
	}{
		"a bad name":               {"show", schemas.Request{Name: "a b"}, schemas.CodeUsage},
		"no name":                  {"suspend", schemas.Request{}, schemas.CodeUsage},
		"no command":               {"run", schemas.Request{Name: "other"}, schemas.CodeUsage},
		"a class that isn't":       {"run", bad, schemas.CodeUsage},
		"made by a stranger":       {"run", made, schemas.CodeUsage},
		"a driver that isn't":      {"run", driverless, schemas.CodeFailed},
		"a command that isn't":     {"run", runRequest("other", "missing"), schemas.CodeFailed},
		"fork to a bad name":       {"fork", schemas.Request{Name: "work", To: "a/b/c"}, schemas.CodeUsage},
		"fork to another tenant":   {"fork", schemas.Request{Name: "work", To: "acme/twin"}, schemas.CodeUsage},
		"fork to a name in use":    {"fork", schemas.Request{Name: "work", To: "work"}, schemas.CodeState},
		"rollback to no snapshot":  {"rollback", schemas.Request{Name: "work"}, schemas.CodeUsage},
		"replace by no snapshot":   {"replace", schemas.Request{Name: "work", Snapshot: "7-7"}, schemas.CodeUsage},
		"replace within no time":   {"replace", schemas.Request{Name: "work", Within: -1}, schemas.CodeUsage},
		"rm of what isn't":         {"rm", schemas.Request{Name: "other"}, schemas.CodeNoSession},
		"explain what isn't":       {"explain", schemas.Request{Name: "other"}, schemas.CodeNoSession},
		"history of what isn't":    {"history", schemas.Request{Name: "never"}, schemas.CodeNoSession},
		"a name of another tenant": {"show", schemas.Request{Name: "acme/work"}, schemas.CodeNoSession},
	} {
		var out any
		if err := h.ask(c.verb, c.req, &out); code(err) != c.want {
			t.Errorf("%s: %v, want code %s", what, err, c.want)
		}
	}
	if msg, err := h.client.Request(schemas.SubjectAPI+".show", []byte("{"), limit); err != nil || msg.Header.Get("Nats-Service-Error-Code") != schemas.CodeUsage {
		t.Errorf("half a request: %v, %v", msg, err)
	}
	h.audited()
}

// Many callers of ensure: one resume.
func TestEnsureCoalesces(t *testing.T) {
	h := start(t)
	v := h.run("work")
	h.do("suspend", schemas.Request{Name: "work"})
	entered, release := make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Restore", fake.Step{Entered: entered, Block: release})
	calls := h.fake.Calls()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			var got schemas.View
			if err := h.ask("ensure", schemas.Request{Name: "work"}, &got); err != nil || got.State != schemas.Running {
				t.Errorf("ensure: %s, %v", got.State, err)
			}
		})
	}
	<-entered
	close(release)
	wg.Wait()
	restores := 0
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Restore" {
			restores++
		}
	}
	if restores != 1 || h.get("work").Generation != 2 {
		t.Errorf("%d restores, generation %d", restores, h.get("work").Generation)
	}
	h.count(v.UID)
}

// All who wait hear of a failure, and why.
func TestEnsureFails(t *testing.T) {
	h := start(t)
	h.run("work")
	h.do("suspend", schemas.Request{Name: "work"})
	entered, release := make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Restore", fake.Step{Entered: entered, Block: release, Before: &driver.Error{Kind: driver.Refused, Text: "another kernel"}})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			var got schemas.View
			err := h.ask("ensure", schemas.Request{Name: "work"}, &got)
			if err == nil {
				return // it came after the failure, and asked again
			}
			var said *schemas.APIError
			if code(err) != schemas.CodeFailed || !errors.As(err, &said) || !strings.Contains(said.Detail, "another kernel") || said.Hint == "" {
				t.Errorf("ensure: %v", err)
			}
		})
	}
	<-entered
	close(release)
	wg.Wait()
	h.do("ensure", schemas.Request{Name: "work"})
}

func TestTimeouts(t *testing.T) {
	h := start(t)
	v := h.run("work")
	var out any
	entered, release := make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Capture", fake.Step{Entered: entered, Block: release})
	if err := h.ask("suspend", schemas.Request{Name: "work", Wait: schemas.Duration(time.Second)}, &out); code(err) != schemas.CodeTimeout {
		t.Errorf("suspend: %v", err)
	}
	<-entered
	close(release)
	h.until("work", "suspended", func(v statekv.Versioned) bool { return v.State == schemas.Suspended && v.Op == nil })
	entered, release = make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Restore", fake.Step{Entered: entered, Block: release})
	if err := h.ask("ensure", schemas.Request{Name: "work", Wait: schemas.Duration(time.Second)}, &out); code(err) != schemas.CodeTimeout {
		t.Errorf("ensure: %v", err)
	}
	<-entered
	close(release)
	h.do("ensure", schemas.Request{Name: "work"})
	h.count(v.UID)
}

// Ensure undoes a suspend under way, an asked-for one too.
func TestEnsureDuringSuspend(t *testing.T) {
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	entered := make(chan struct{}, 1)
	h.fake.Script("Capture", fake.Step{Entered: entered, Block: make(chan struct{})}) // only activity ends it
	suspended := make(chan error, 1)
	go func() {
		var out any
		suspended <- h.ask("suspend", schemas.Request{Name: "work"}, &out)
	}()
	<-entered
	if got := h.do("ensure", schemas.Request{Name: "work"}); got.State != schemas.Running {
		t.Errorf("ensure: %s", got.State)
	}
	if err := <-suspended; code(err) != schemas.CodeState || schemas.ReasonOf(err) != schemas.ReasonRunsOn {
		t.Errorf("suspend: %v", err)
	}
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
}

// Ensure, resume and a clean start that come before the kill of a suspend.
func TestWokenBeforeTheKill(t *testing.T) {
	for _, c := range []struct {
		verb  string
		boot  schemas.Boot
		clean bool
	}{{verb: "ensure"}, {verb: "resume", boot: "resume"}, {verb: "resume", boot: "clean", clean: true}} {
		t.Run(c.verb+" "+string(c.boot), func(t *testing.T) {
			t.Parallel()
			h := start(t)
			v := h.run("work")
			n := h.count(v.UID)
			for range 3 {
				h.fake.Script("Stop", fake.Step{Before: errors.New("the kernel is busy")})
			}
			suspended := make(chan error, 1)
			go func() {
				var out any
				suspended <- h.ask("suspend", schemas.Request{Name: "work"}, &out)
			}()
			h.until("work", "suspended", func(v statekv.Versioned) bool { return v.State == schemas.Suspended })
			got := h.do(c.verb, schemas.Request{Name: "work", Clean: c.clean})
			<-suspended
			if got.State != schemas.Running || c.boot != "" && got.Boot != c.boot {
				t.Errorf("%s, boot %q", got.State, got.Boot)
			}
			want := n + 1
			if c.clean {
				want = 1
			}
			if m := h.count(v.UID); m != want {
				t.Errorf("it goes on with %d, want %d", m, want)
			}
			h.audited()
		})
	}
}

// One name, many callers of run: one session.
func TestRunRace(t *testing.T) {
	h := start(t)
	var wg sync.WaitGroup
	won := make(chan schemas.UID, 10)
	for range 10 {
		wg.Go(func() {
			var got schemas.View
			err := h.ask("run", runRequest("work", "count"), &got)
			if err == nil {
				won <- got.UID
			} else if code(err) != schemas.CodeState {
				t.Errorf("run: %v", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d callers made session work", len(won))
	}
	if h.get("work").UID != <-won {
		t.Error("it is another one")
	}
}

// Suspends, resumes, checkpoints and removals at the same time: each gets an
// answer, and the log is whole.
func TestCallersAtOnce(t *testing.T) {
	h := start(t)
	h.run("work")
	var wg sync.WaitGroup
	for _, verb := range []string{"suspend", "ensure", "checkpoint", "suspend", "resume", "checkpoint", "ensure", "suspend"} {
		wg.Go(func() {
			for range 5 {
				var out any
				switch err := h.ask(verb, schemas.Request{Name: "work"}, &out); code(err) {
				case "", schemas.CodeState:
				default:
					t.Errorf("%s: %v", verb, err)
				}
			}
		})
	}
	wg.Wait()
	h.do("rm", schemas.Request{Name: "work"})
	h.audited()
}

func TestForkAndRollback(t *testing.T) {
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	twin := h.do("fork", schemas.Request{Name: "work", To: "twin"})
	if twin.Boot != "fork" || twin.UID == v.UID {
		t.Errorf("boot %q, uid %s of %s", twin.Boot, twin.UID, v.UID)
	}
	if a, b := h.count(v.UID), h.count(twin.UID); a != n+1 || b != n+1 {
		t.Errorf("at %d it was forked; they go on with %d and %d", n, a, b)
	}
	cp := h.do("checkpoint", schemas.Request{Name: "work", Description: "before"})
	at := h.count(v.UID)
	h.count(v.UID)
	back := h.do("rollback", schemas.Request{Name: "work", Snapshot: cp.Snapshot.ID})
	if back.Boot != "rollback" || h.count(v.UID) != at {
		t.Errorf("boot %q; it doesn't go on with %d", back.Boot, at)
	}
	// Its origin gone, the fork goes on: its images stay until it has its own.
	if gone := h.do("rm", schemas.Request{Name: "work"}); gone.State != schemas.Deleted {
		t.Errorf("rm: %s", gone.State)
	}
	var out any
	if err := h.ask("run", runRequest("work", "count"), &out); code(err) != schemas.CodeState || schemas.ReasonOf(err) != schemas.ReasonBusy {
		t.Errorf("run under the name of one whose images are needed: %v", err)
	}
	h.do("suspend", schemas.Request{Name: "twin"})
	h.until("work", "removed", func(v statekv.Versioned) bool { return v.Op == nil })
	h.do("ensure", schemas.Request{Name: "twin"})
	if m := h.count(twin.UID); m != n+2 {
		t.Errorf("the fork goes on with %d, want %d", m, n+2)
	}
	h.run("work")
	h.audited()
}
