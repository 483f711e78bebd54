package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// shimMoment is a moment of a shim that a session reaches under any host lease.
type shimMoment struct {
	failpoint.Name
	loses bool // a session whose shim is killed there has nothing but its last snapshot left
}

// shimMoments are all of them, in the order in which a session comes by.
var shimMoments = []shimMoment{
	{failpoint.ShimOrdered, true}, {failpoint.ShimGated, true}, {failpoint.ShimLooked, true}, {failpoint.ShimFrozen, true}, {failpoint.ShimDumping, true},
	{failpoint.ShimDumped, true}, {failpoint.ShimRehearses, true}, {failpoint.ShimRehearsed, true}, {failpoint.ShimCompared, true},
	{failpoint.ShimRead, true}, {failpoint.ShimLetGo, true}, {failpoint.ShimThaws, true}, {failpoint.ShimThawed, true},
	{failpoint.ShimKills, false}, {failpoint.ShimKilled, false},
	{failpoint.ShimFilled, false}, {failpoint.ShimRestored, false}, {failpoint.ShimBegins, false}, {failpoint.ShimNoted, true}, {failpoint.ShimTraced, true}, {failpoint.ShimHeld, true}, {failpoint.ShimRuns, true},
	{failpoint.ShimMade, false}, {failpoint.ShimStarts, false}, {failpoint.ShimWritten, true}, {failpoint.ShimStarted, true},
}

// A shim is killed at each moment between two of its steps, its worker living on. It takes
// the session's processes with it: what was in no image is lost and said so, and nothing
// else is.
func TestShimsKilled(t *testing.T) {
	t.Parallel()
	d, c := newUnlucky(t)
	d.loses = func(m shimMoment) bool { return m.loses }
	d.all(c, "kill", "stream", shimMoments)
}

// A shim gets an error at each of them. Nothing is lost but what had started to run and was
// ended by it.
func TestShimsFail(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d, c := newUnlucky(t)
	d.loses = func(m shimMoment) bool { return m.Name == failpoint.ShimRuns || m.Name == failpoint.ShimStarted }
	d.all(c, "error", "memory", slices.DeleteFunc(slices.Clone(shimMoments), func(m shimMoment) bool {
		return m.Name == failpoint.ShimDumping // nothing is streamed
	}))
}

// The daemon is killed while a shim stands at a moment, and started again while it does, or
// goes on. Nothing is lost: the next worker finishes or undoes what was started.
func TestKilledWhileShimStands(t *testing.T) {
	t.Parallel()
	d, c := newUnlucky(t)
	d.loses = func(shimMoment) bool { return false }
	r, tried := newRand(t), len(shimMoments)
	if os.Getenv("DIAPAUSE_LONG") == "" {
		tried = 4
	}
	for _, i := range r.Perm(len(shimMoments))[:tried] {
		m := shimMoments[i]
		d.arm("stop", "stream", []shimMoment{m})
		verb := []string{"suspend", "work"}
		switch step := string(m.Name); {
		case strings.HasPrefix(step, "shim.thaw."):
			verb = []string{"checkpoint", "work"}
		case strings.HasPrefix(step, "shim.restore.") && r.IntN(2) == 0:
			verb = []string{"fork", "work", "copy"}
		case strings.HasPrefix(step, "shim.restore."):
			verb = []string{"ensure", "work"}
			d.do("suspend", "work")
		case strings.HasPrefix(step, "shim.start."):
			verb = []string{"run", "--name", "copy", "--idle", "never", "--", "sh", "-c", program}
		}
		t.Logf("%s, the shim stands at %s", verb[0], m.Name)
		d.killedWhileStopped(m.Name, verb...)
		mustBe(t, settle(t, d.s, "work"), schemas.Running, schemas.Suspended)
		awake(t, d.s, c)
		tidy(t, d.s)
		audit(t, d.s)
	}
	usable(t, d.s, "work")
}

// killedWhileStopped begins a verb, kills the daemon when the verb's shim has stopped itself,
// and starts it again beside the shim's going on.
func (d *unlucky) killedWhileStopped(at failpoint.Name, verb ...string) {
	d.t.Helper()
	came := make(chan stack.Result, 1)
	go func() { came <- d.s.Do(verb...) }()
	shim := 0
	for end := time.Now().Add(time.Minute); shim == 0; time.Sleep(2 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(d.marks, string(at)+"@1"))
		if n, convErr := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && convErr == nil && isStopped(n) {
			shim = n
		}
		if time.Now().After(end) {
			d.t.Fatalf("%v doesn't come to %s: %+v", verb, at, <-came)
		}
	}
	if err := d.s.Kill(); err != nil {
		d.t.Fatal(err)
	}
	<-came
	d.s.Env = nil
	up := make(chan error, 1)
	go func() { up <- d.s.Up() }()
	if err := syscall.Kill(shim, syscall.SIGCONT); err != nil {
		d.t.Fatal(err)
	}
	if err := <-up; err != nil {
		d.t.Fatal(err)
	}
}

func isStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(b), "\nState:\tT")
}

// unlucky is a stack in whose shims something goes wrong, once at each moment.
type unlucky struct {
	*insistent
	marks string // where each leaves a file
	seen  []failpoint.Name
	loses func(shimMoment) bool
	floor int // what the counter had counted to before its last snapshot
}

// newUnlucky begins a session, which has a snapshot before anything goes wrong.
func newUnlucky(t *testing.T) (*unlucky, *counter) {
	t.Helper()
	marks := t.TempDir() // lasts longer than the stack
	s := newStack(t)
	if _, err := s.Must("policy", "set", "all", "rehearse=always"); err != nil {
		t.Fatal(err)
	}
	d := &unlucky{insistent: &insistent{t: t, s: s}, marks: marks}
	c := startCounter(t, s, "work")
	c.check(t, s)
	if _, err := s.Must("checkpoint", "work"); err != nil {
		t.Fatal(err)
	}
	d.floor = c.durable
	return d, c
}

// all asks for all that a session can be asked for until something went wrong at every
// moment: first at every other one, for a resume is not tried for ever.
func (d *unlucky) all(c *counter, action, way string, moments []shimMoment) {
	d.t.Helper()
	for half := range 2 {
		var left []shimMoment
		for i := half; i < len(moments); i += 2 {
			left = append(left, moments[i])
		}
		d.arm(action, way, left)
		for end := time.Now().Add(5 * time.Minute); len(left) > 0; {
			d.ask(c, "checkpoint", "work")
			d.ask(c, "suspend", "work")
			d.ask(c, "fork", "work", "copy")
			d.ask(c, "run", "--name", "copy", "--idle", "never", "--", "sh", "-c", program)
			audit(d.t, d.s)
			left = slices.DeleteFunc(left, func(m shimMoment) bool { return slices.Contains(d.seen, m.Name) })
			if len(left) > 0 && time.Now().After(end) {
				d.t.Fatalf("nothing went wrong at %v", left)
			}
		}
	}
	usable(d.t, d.s, "work")
}

// arm starts the daemon again: it tells its shims what is to go wrong.
func (d *unlucky) arm(action, way string, at []shimMoment) {
	d.t.Helper()
	if err := d.s.Kill(); err != nil {
		d.t.Fatal(err)
	}
	armed := []string{"once=" + d.marks}
	for _, m := range at {
		armed = append(armed, string(m.Name)+"="+action)
	}
	d.s.Env = append(os.Environ(), failpoint.Variable+"="+strings.Join(armed, ";"))
	if err := d.s.Up("--capture", way); err != nil {
		d.t.Fatal(err)
	}
}

// hits are the moments that something went wrong at since the last time.
func (d *unlucky) hits() (all []shimMoment) {
	d.t.Helper()
	files, err := os.ReadDir(d.marks)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name(), "@")
		i := slices.IndexFunc(shimMoments, func(m shimMoment) bool { return string(m.Name) == name })
		if m := shimMoments[i]; !slices.Contains(d.seen, m.Name) {
			all = append(all, m)
			d.seen = append(d.seen, m.Name)
		}
	}
	return all
}

// ask has the counting session, or a copy beside it, come by some moments, and then looks
// that what it has counted is there, or is lost as far as its last snapshot.
func (d *unlucky) ask(c *counter, verb ...string) {
	d.t.Helper()
	c.check(d.t, d.s)
	counted, before := c.durable, settle(d.t, d.s, "work").Snapshot.ID
	r := d.once(verb...)
	d.raised("copy")
	hits := d.hits()
	d.t.Logf("%s: exit status %d; it went wrong at %v", verb[0], r.Code, hits)
	if verb[0] == "run" || verb[0] == "fork" {
		hits = slices.DeleteFunc(hits, func(m shimMoment) bool {
			return verb[0] == "run" || strings.HasPrefix(string(m.Name), "shim.restore.") // of the copy
		})
	}
	v := d.became(c, hits)
	if v.Snapshot.ID != before {
		d.floor = counted
	}
	if v.State == schemas.Failed && strings.Contains(r.Err, "runs on") {
		d.t.Fatalf("%s of what is lost says %q", verb[0], r.Err)
	}
	d.wake(c)
	if _, err := d.s.View("copy"); err == nil {
		d.do("rm", "--yes", "copy")
	}
}

// raised waits until a session's shim has done all that a start or a restore takes, or the
// session doesn't come to run: a shim doesn't talk to others before.
func (d *unlucky) raised(name string) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		v, err := d.s.View(name)
		on := []schemas.State{schemas.Starting, schemas.Resuming, schemas.Running}
		if err != nil || !slices.Contains(on, v.State) || d.s.Do("exec", name, "--", "true").Code == 0 {
			return
		}
	}
	d.t.Fatalf("nothing can be executed in session %s", name)
}

// became wants the counting session at rest: lost, if something went wrong that loses it,
// and its counter back where its snapshot has it.
func (d *unlucky) became(c *counter, hits []shimMoment) schemas.View {
	d.t.Helper()
	if !slices.ContainsFunc(hits, d.loses) {
		v := settle(d.t, d.s, "work")
		mustBe(d.t, v, schemas.Running, schemas.Suspended)
		return v
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		v := settle(d.t, d.s, "work")
		if v.State == schemas.Failed {
			if v.Failure == nil || !strings.Contains(v.Failure.Text, "shim was killed") && !strings.Contains(v.Failure.Text, "had run already") {
				d.t.Fatalf("the failure is %+v", v.Failure)
			}
			if d.s.Leaders(v.UID) == 0 { // what is left of it goes after the record says so
				c.durable = d.floor
				return v
			}
		}
		if time.Now().After(end) {
			d.t.Fatalf("it went wrong at %v, and the session is %s, with %d trees", hits, v.State, d.s.Leaders(v.UID))
		}
	}
}

// wake brings the counting session to run, from its snapshot if it was lost, and checks
// that it counts on.
func (d *unlucky) wake(c *counter) {
	d.t.Helper()
	for range 10 {
		verb := "ensure"
		if settle(d.t, d.s, "work").State == schemas.Failed {
			verb = "resume"
		}
		r := d.once(verb, "work")
		d.raised("work")
		hits := d.hits()
		if len(hits) > 0 {
			d.t.Logf("%s: exit status %d; it went wrong at %v", verb, r.Code, hits)
		}
		if v := d.became(c, hits); v.State == schemas.Running {
			c.check(d.t, d.s)
			return
		}
	}
	d.t.Fatal("the session doesn't wake")
}
