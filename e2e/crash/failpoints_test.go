package crash

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// way is what is asked of a session, and the moments between its steps.
type way struct {
	verb    []string
	asleep  bool // the session is suspended before
	moments []failpoint.Name
	want    []schemas.State // then; none: it may be gone
}

// ways leads through all moments; the ones of the API and of any op are in the
// first alone.
func ways() []way {
	running, either := []schemas.State{schemas.Running}, []schemas.State{schemas.Running, schemas.Suspended}
	return []way{
		{[]string{"suspend", "work"}, false, []failpoint.Name{
			failpoint.APIAsked, failpoint.APIRecorded, failpoint.APICommanded, failpoint.WorkerFound, failpoint.WorkerClaimed,
			failpoint.CaptureStarts, failpoint.CriuFenced, failpoint.CriuDumped, failpoint.CriuLayers, failpoint.CriuMemory, failpoint.CriuLetGo,
			failpoint.CaptureTaken, failpoint.ImagePacks, failpoint.ImageKey, failpoint.ImageHeader, failpoint.CaptureDurable,
			failpoint.SuspendRecorded, failpoint.ReapHeard, failpoint.CriuStopped, failpoint.ReapKilled, failpoint.ReapRecorded,
		}, either},
		{[]string{"resume", "work"}, true, []failpoint.Name{
			failpoint.ResumeCleared, failpoint.ResumeOpened, failpoint.CriuVacant, failpoint.CriuShim, failpoint.CriuFilled,
			failpoint.ResumeRestored, failpoint.ResumeRecorded, failpoint.CriuGoing, failpoint.CriuRuns, failpoint.ResumeDone,
		}, either},
		{[]string{"checkpoint", "work"}, false, []failpoint.Name{failpoint.CheckpointThawed, failpoint.CheckpointRecorded}, running},
		{[]string{"fork", "work", "copy"}, true, []failpoint.Name{failpoint.APIForkHead, failpoint.APIForkMade}, either},
		{[]string{"run", "--name", "copy", "--idle", "never", "--", "sh", "-c", program}, false, []failpoint.Name{
			failpoint.StartReady, failpoint.StartRecorded, failpoint.StartDone,
		}, running},
		{[]string{"rm", "--yes", "copy"}, false, []failpoint.Name{
			failpoint.RemoveStopped, failpoint.RemoveUnneeded, failpoint.RemoveDeleted, failpoint.RemoveRecorded,
		}, running},
		{[]string{"touch", "work"}, true, []failpoint.Name{
			failpoint.SchedulerDecided, failpoint.SchedulerRecorded, failpoint.SchedulerCommanded,
		}, either},
	}
}

// stop is one moment of a way.
type stop struct {
	way
	at failpoint.Name
}

// stops are all of them, in an order drawn from r.
func stops(r *rand.Rand) (all []stop) {
	for _, w := range ways() {
		for _, at := range w.moments {
			all = append(all, stop{w, at})
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// The daemon is killed at each moment between two steps, with real processes: the
// next start finishes or undoes what was started.
func TestKilledAtFailpoints(t *testing.T) {
	t.Parallel()
	s, r := newStack(t), newRand(t)
	c := startCounter(t, s, "work")
	for _, st := range stops(r) {
		began := time.Now()
		c.check(t, s)
		prepare(t, s, st)
		killedAt(t, s, st)
		mustBe(t, settle(t, s, "work"), st.want...)
		awake(t, s, c)
		tidy(t, s)
		audit(t, s)
		t.Logf("%v killed at %s: %s", st.verb[0], st.at, time.Since(began).Round(time.Millisecond))
	}
	usable(t, s, "work")
}

// prepare brings the sessions to where the way begins.
func prepare(t *testing.T, s *stack.Stack, st stop) {
	t.Helper()
	if st.asleep {
		if _, err := s.Must("suspend", "work"); err != nil {
			t.Fatal(err)
		}
	}
	if st.verb[0] == "rm" {
		startCounter(t, s, "copy")
	}
}

// killedAt starts the daemon so that it kills itself at the moment, begins the verb,
// and starts it again when it is gone.
func killedAt(t *testing.T, s *stack.Stack, st stop) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Env = append(os.Environ(), failpoint.Variable+"="+string(st.at)+"=kill")
	err := s.Up()
	s.Env = nil
	if err != nil {
		t.Fatalf("start with a failpoint at %s: %v", st.at, err)
	}
	came := make(chan stack.Result, 1)
	go func() { came <- s.Do(st.verb...) }()
	if err := s.Wait(); err == nil {
		t.Fatalf("the daemon ended well, and was to be killed at %s", st.at)
	}
	if s.Alive() {
		t.Fatalf("%v doesn't come to %s: %+v", st.verb, st.at, <-came)
	}
	<-came
	if err := s.Up(); err != nil {
		t.Fatalf("start again after a kill at %s in %v: %v", st.at, st.verb, err)
	}
}

// tidy uses what was made besides, if it is there, and removes it.
func tidy(t *testing.T, s *stack.Stack) {
	t.Helper()
	if v, err := s.View("copy"); err != nil {
		return
	} else if v = settle(t, s, "copy"); v.State == schemas.Running || v.State == schemas.Suspended {
		awake(t, s, &counter{name: "copy", uid: v.UID})
	}
	if _, err := s.Must("rm", "--yes", "copy"); err != nil {
		t.Fatal(err)
	}
}
