package containers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// Between any two steps of the driver an error comes, once each: before the one, and after
// success of the other. For any answer of the verb, what the container has counted is there, it
// is there once, and nothing stays paused or left behind.
func TestErrors(t *testing.T) {
	marks := t.TempDir() // each error leaves a file in it
	e := dockertest.Shared(t)
	h := newHost(t, e)
	busybox := e.Busybox(t)
	before := h.everything()
	h.must("run", "--name", "work", "--image", busybox, "--container-name", "work", "--idle", "never", "--network", "none", "-v", "data:/data", "--", "sh", "-c", counting)
	last := h.number("work", "/data/n", 0)
	there := map[schemas.State][]string{schemas.Running: h.everything()}
	h.must("suspend", "work")
	there[schemas.Suspended] = h.everything()
	all := []failpoint.Name{
		failpoint.DockerAhead, failpoint.DockerPaused, failpoint.DockerAdded, failpoint.DockerMade, failpoint.DockerFilled,
		failpoint.DockerStarts, failpoint.DockerRuns, failpoint.DockerRemoved,
	}
	for half := range 2 { // first at every other one: a resume is not tried for ever
		left := h.failing(all[half:], marks)
		for end := time.Now().Add(limit); len(left()) > 0; {
			if time.Now().After(end) {
				t.Fatalf("no error came at %v", left())
			}
			for _, verb := range []string{"resume", "checkpoint", "suspend"} {
				r := h.Do(verb, "work")
				if v := h.rests(there); v.State == schemas.Running {
					last = h.counts(last)
				} else if v.State != schemas.Suspended {
					t.Fatalf("%s: exit status %d, %s; it is %s: %+v", verb, r.Code, r.Err, v.State, v.Failure)
				}
			}
		}
	}
	h.insist("ensure", "work")
	h.counts(last)
	h.must("audit", "--verify")
	h.must("rm", "--yes", "work")
	if after := h.everything(); !slices.Equal(after, before) {
		t.Errorf("there was %q, and is %q", before, after)
	}
}

// failing starts the daemon so that an error comes at every other moment, and gives those
// where none came yet.
func (h *host) failing(all []failpoint.Name, marks string) (left func() []failpoint.Name) {
	h.t.Helper()
	if err := h.Kill(); err != nil {
		h.t.Fatal(err)
	}
	armed, at := []string{"once=" + marks}, []failpoint.Name(nil)
	for i := 0; i < len(all); i += 2 {
		armed, at = append(armed, string(all[i])+"=error"), append(at, all[i])
	}
	h.Env = append(os.Environ(), failpoint.Variable+"="+strings.Join(armed, ";"))
	if err := h.Up("--docker", h.e.URL); err != nil {
		h.t.Fatal(err)
	}
	return func() []failpoint.Name {
		return slices.DeleteFunc(slices.Clone(at), func(n failpoint.Name) bool {
			_, err := os.Stat(filepath.Join(marks, string(n)+"@1"))
			return err == nil
		})
	}
}

// rests waits until the engine has what it has of a session in the state that the record
// says: an attempt that failed is followed by another.
func (h *host) rests(there map[schemas.State][]string) (v schemas.View) {
	h.t.Helper()
	var has []string
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		v = h.settle("work")
		if has = h.everything(); slices.Equal(has, there[v.State]) || there[v.State] == nil {
			return v
		}
	}
	h.t.Fatalf("it is %s, and there is %q, not %q", v.State, has, there[v.State])
	return v
}

// counts wants the container to count on from what it had counted to, and what it began from
// to be of one moment.
func (h *host) counts(last int) int {
	h.t.Helper()
	last = h.number("work", "/data/n", last)
	if out, err := h.in("work", "if [ -e /torn ]; then cat /torn; fi"); err != nil || out != "" {
		h.t.Errorf("its layer and its volume are not of one moment: %q, %v", out, err)
	}
	return last
}

// insist asks for a verb until it works: each error comes once.
func (h *host) insist(args ...string) {
	h.t.Helper()
	for range 10 {
		if h.Do(args...).Code == 0 {
			return
		}
	}
	h.must(args...)
}
