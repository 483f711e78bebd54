package crash

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// A session's shim ends when it has let the session run, and the daemon before it has told
// anybody. The session may have done things that no image has: it is lost and said so, and
// not started again from its image as if nothing had been.
func TestWhatRanIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	d, c := newUnlucky(t)
	d.loses = func(shimMoment) bool { return true }

	d.do("suspend", "work")
	d.restartWith(string(failpoint.ShimRuns)+"=kill", string(failpoint.CriuLost)+"=kill")
	came := make(chan struct{})
	go func() { d.s.Do("ensure", "work"); close(came) }()
	if err := d.s.Wait(); err == nil || d.s.Alive() {
		t.Fatalf("the daemon didn't come to %s: %v", failpoint.CriuLost, err)
	}
	<-came
	d.restartWith()
	d.lostAndSaidSo(c, "shim was killed")

	// The shim itself ends the session, and there is no daemon to hear why.
	d.do("suspend", "work")
	d.restartWith(string(failpoint.ShimNoted)+"=stop", string(failpoint.ShimRuns)+"=error")
	d.killedWhileStopped(failpoint.ShimNoted, "ensure", "work")
	d.lostAndSaidSo(c, "had run already")
}

// restartWith starts the daemon again, with failpoints, each once.
func (d *unlucky) restartWith(points ...string) {
	d.t.Helper()
	if d.s.Alive() {
		if err := d.s.Kill(); err != nil {
			d.t.Fatal(err)
		}
	}
	d.s.Env = nil
	if len(points) > 0 {
		d.marks = d.t.TempDir()
		d.s.Env = append(os.Environ(), failpoint.Variable+"="+strings.Join(append(points, "once="+d.marks), ";"))
	}
	if err := d.s.Up(); err != nil {
		d.t.Fatal(err)
	}
}

// lostAndSaidSo wants the counting session failed and why, no one to begin it again who
// wasn't asked to, and that it goes on from its snapshot when someone is.
func (d *unlucky) lostAndSaidSo(c *counter, why string) {
	d.t.Helper()
	v := settle(d.t, d.s, "work")
	mustBe(d.t, v, schemas.Failed)
	if v.Failure == nil || !strings.Contains(v.Failure.Text, why) || !strings.Contains(v.Failure.Hint, "diapause resume") {
		d.t.Fatalf("the failure is %+v, want %q and what to do", v.Failure, why)
	}
	out, err := d.s.Must("history", "work")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, again := range []schemas.TransitionType{schemas.TResumeAgain, schemas.TStartAgain} {
		if slices.Contains(strings.Fields(out), string(again)) {
			d.t.Fatalf("it was started again:\n%s", out)
		}
	}
	if _, err := d.s.Must("resume", "work"); err != nil {
		d.t.Fatal(err)
	}
	c.check(d.t, d.s)
	audit(d.t, d.s)
}
