package crash

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

// step is a transition after which the daemon is killed.
type step struct {
	verb []string
	at   schemas.TransitionType
	want []schemas.State // then
}

// steps are all transitions that a verb makes on its way.
func steps() (all []step) {
	add := func(want []schemas.State, verb []string, at ...schemas.TransitionType) {
		for _, t := range at {
			all = append(all, step{verb, t, want})
		}
	}
	running := []schemas.State{schemas.Running}
	either := []schemas.State{schemas.Running, schemas.Suspended}
	add(either, []string{"suspend", "work"}, schemas.TSuspend, schemas.TClaimed, schemas.TSuspended, schemas.TReaped)
	add(either, []string{"ensure", "work"}, schemas.TResume, schemas.TClaimed, schemas.TResumed)
	add(running, []string{"checkpoint", "work"}, schemas.TCheckpoint, schemas.TClaimed, schemas.TCheckpointed)
	add(either, []string{"fork", "work", "copy"}, schemas.TCheckpoint, schemas.TCheckpointed)
	return all
}

// A kill right after each transition that is recorded: the next start finishes
// or undoes what was started.
func TestKilledAfterEachTransition(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	c := startCounter(t, s, "work")
	for _, st := range steps() {
		if st.verb[0] == "ensure" {
			if _, err := s.Must("suspend", "work"); err != nil {
				t.Fatal(err)
			}
		}
		killAt(t, s, st)
		mustBe(t, settle(t, s, "work"), st.want...)
		awake(t, s, c)
		if _, err := s.View("copy"); err == nil {
			mustBe(t, settle(t, s, "copy"), schemas.Running, schemas.Suspended)
			if _, err := s.Must("rm", "--yes", "copy"); err != nil {
				t.Fatal(err)
			}
		}
		audit(t, s)
	}
	usable(t, s, "work")
}

// The same for what makes and ends a session.
func TestKilledAfterEachTransitionOfALife(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	run := []string{"run", "--name", "work", "--idle", "never", "--", "sh", "-c", program}
	for _, at := range []schemas.TransitionType{schemas.TRun, schemas.TClaimed, schemas.TStarted} {
		killAt(t, s, step{verb: run, at: at})
		if v := settle(t, s, "work"); v.State == schemas.Running {
			(&counter{name: "work"}).check(t, s)
		} else {
			mustBe(t, v, schemas.Failed)
		}
		if _, err := s.Must("rm", "--yes", "work"); err != nil {
			t.Fatal(err)
		}
		audit(t, s)
	}
	for _, at := range []schemas.TransitionType{schemas.TRemove, schemas.TClaimed, schemas.TRemoved} {
		if _, err := s.Must(run...); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Must("suspend", "work"); err != nil {
			t.Fatal(err)
		}
		killAt(t, s, step{verb: []string{"rm", "--yes", "work"}, at: at})
		if r := s.Do("show", "work"); r.Code != 3 {
			t.Fatalf("show of a session that is being removed: exit status %d: %s%s", r.Code, r.Out, r.Err)
		}
		freed(t, s, "work")
		audit(t, s)
	}
}

// killAt begins the verb and kills the daemon as soon as it has recorded the
// transition; then it starts it again.
func killAt(t *testing.T, s *stack.Stack, st step) {
	t.Helper()
	nc, err := natsconn.Connect(t.Context(), s.Secure, filepath.Join(s.Data, "creds", "client.nk"), "crash test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	reached := make(chan struct{}, 64)
	_, err = nc.Subscribe(schemas.SubjectSession+".default.work", func(m *nats.Msg) {
		var r schemas.SessionRecord
		if json.Unmarshal(m.Data, &r) == nil && r.Transition.Type == st.at {
			reached <- struct{}{}
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan stack.Result, 1)
	go func() { came <- s.Do(st.verb...) }()
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatalf("%v doesn't come to %s: %+v", st.verb, st.at, <-came)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	<-came
	if err := s.Up(); err != nil {
		t.Fatalf("start again after a kill at %s in %v: %v", st.at, st.verb, err)
	}
}
