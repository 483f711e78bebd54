package crash

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// moment draws when to kill: most verbs take a tenth to half a second here, and
// both ends matter.
func moment(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(450 * time.Millisecond)))
}

// A daemon that is killed in a suspend leaves the session running or suspended,
// never lost, never twice.
func TestKilledInSuspend(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for range rounds() {
		c.check(t, s)
		interrupt(t, s, moment(r), "suspend", "work")
		mustBe(t, settle(t, s, "work"), schemas.Running, schemas.Suspended)
		awake(t, s, c)
		audit(t, s)
	}
}

// One that is killed in a resume leaves the image, and the session comes back.
func TestKilledInResume(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for range rounds() {
		c.check(t, s)
		if _, err := s.Must("suspend", "work"); err != nil {
			t.Fatal(err)
		}
		interrupt(t, s, moment(r), "ensure", "work")
		mustBe(t, settle(t, s, "work"), schemas.Running, schemas.Suspended)
		awake(t, s, c)
		audit(t, s)
	}
}

// A checkpoint that is interrupted leaves the session running, and a snapshot
// or none.
func TestKilledInCheckpoint(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for range rounds() {
		c.check(t, s)
		interrupt(t, s, moment(r), "checkpoint", "work")
		mustBe(t, settle(t, s, "work"), schemas.Running)
		c.check(t, s)
		audit(t, s)
	}
	usable(t, s, "work")
}

// A fork that is interrupted leaves its origin as it was, and a fork or none.
func TestKilledInFork(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for range rounds() {
		c.check(t, s)
		interrupt(t, s, moment(r), "fork", "work", "copy")
		mustBe(t, settle(t, s, "work"), schemas.Running)
		c.check(t, s)
		if v, err := s.View("copy"); err == nil {
			mustBe(t, settle(t, s, "copy"), schemas.Running, schemas.Suspended)
			fork := &counter{name: "copy", uid: v.UID}
			awake(t, s, fork)
			if _, err := s.Must("rm", "--yes", "copy"); err != nil {
				t.Fatal(err)
			}
		}
		audit(t, s)
	}
}

// Making a template that is interrupted leaves its session as it was, and a template or none; what began is finished. A session
// from it goes on where that one was.
func TestKilledInTemplate(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for range rounds() {
		c.check(t, s)
		interrupt(t, s, moment(r), "template", "create", "py", "--from", "work")
		mustBe(t, settle(t, s, "work"), schemas.Running)
		c.check(t, s)
		made := s.Do("run", "--json", "--template", "py", "--name", "copy")
		for end := time.Now().Add(time.Minute); made.Why() == schemas.ReasonBusy && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			made = s.Do("run", "--json", "--template", "py", "--name", "copy")
		}
		switch made.Code {
		case 0:
			(&counter{name: "copy"}).check(t, s)
			if _, err := s.Must("rm", "--yes", "copy"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Must("template", "rm", "py"); err != nil {
				t.Fatal(err)
			}
		case 3: // there is none
		default:
			t.Fatalf("run --template: exit status %d: %s", made.Code, made.Err)
		}
		audit(t, s)
	}
}

// A run that is interrupted leaves a session that runs, one that says why it
// doesn't, or none; a removal is finished.
func TestKilledInRunAndRemove(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	for range rounds() {
		interrupt(t, s, moment(r)/4, "run", "--name", "work", "--idle", "never", "--", "sh", "-c", program)
		if _, err := s.View("work"); err == nil {
			if v := settle(t, s, "work"); v.State == schemas.Running {
				(&counter{name: "work"}).check(t, s)
			} else {
				mustBe(t, v, schemas.Failed)
			}
		} else if _, err := s.Must("run", "--name", "work", "--", "sleep", "1000"); err != nil {
			t.Fatal(err)
		}
		interrupt(t, s, moment(r)/4, "rm", "--yes", "work")
		if r := s.Do("rm", "--yes", "work"); r.Code != 0 && r.Code != 3 {
			t.Fatalf("rm: exit status %d: %s", r.Code, r.Err)
		}
		audit(t, s)
		freed(t, s, "work")
	}
}

// freed waits until the name can be used again.
func freed(t *testing.T, s *stack.Stack, name string) {
	t.Helper()
	var r stack.Result
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if r = s.Do("run", "--json", "--name", name, "--", "sleep", "1000"); r.Code == 0 {
			if _, err := s.Must("rm", "--yes", name); err != nil {
				t.Fatal(err)
			}
			return
		}
		if r.Why() != schemas.ReasonBusy {
			break
		}
	}
	t.Fatalf("the name %s isn't free: %s", name, r.Err)
}

// usable checks that every snapshot that is listed can be used.
func usable(t *testing.T, s *stack.Stack, name string) {
	t.Helper()
	out, err := s.Must("snapshots", name)
	if err != nil || strings.Contains(out, "can't be used") {
		t.Fatalf("snapshots of %s: %v\n%s", name, err, out)
	}
}

func mustBe(t *testing.T, v schemas.View, states ...schemas.State) {
	t.Helper()
	for _, s := range states {
		if v.State == s {
			return
		}
	}
	t.Fatalf("session %s is %s, want one of %v: %s by %s, failure %+v", v.Name, v.State, states, v.LastTransition.Reason, v.LastTransition.Actor, v.Failure)
}
