package containers

import (
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// A snapshot takes the place of what a container is now if its health check passes there;
// if it doesn't, the container is back with its files and its volume, the named one that
// others made included. That holds when the daemon is killed in the middle.
func TestReplace(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.volume("webdata")
	h.must("run", "--name", "web", "--image", "busybox:test", "--container-name", "web", "--idle", "never", "--network", "none", "-v", "webdata:/data",
		"--health-cmd", "test -e /data/well || { echo no well; false; }", "--health-interval", "500ms",
		"--", "sh", "-c", "if [ -e /dead ]; then exit 7; fi; while :; do sleep 0.1; done")
	is := func(want string) {
		t.Helper()
		if got := h.until("web", "cat /data/is /is"); got != want+"\n"+want {
			t.Errorf("it is %q, want %s", got, want)
		}
	}
	become := func(what string) string {
		t.Helper()
		h.until("web", "echo "+what+" >/is; echo "+what+" >/data/is")
		h.must("checkpoint", "web")
		return h.view("web").Snapshot.ID
	}
	ill := become("ill")
	h.until("web", "touch /data/well /dead")
	dead := become("dead")
	h.until("web", "rm /dead")
	good := become("good")
	h.until("web", "echo newest >/is; echo newest >/data/is")

	r := h.Do("resume", "web", "--replace", "--snapshot", ill, "--healthy-within", "1m")
	if r.Code != 1 || !strings.Contains(r.Err, "runs as it was") || !strings.Contains(r.Err, "no well") {
		t.Errorf("replaced by what isn't well: %+v", r)
	}
	is("newest")
	// Killed while it is looked at, and between the record and the container that is put back.
	for at, by := range map[failpoint.Name]string{failpoint.ProveStarts: ill, failpoint.FellBack: dead} {
		h.killIn(at, "resume", "web", "--replace", "--snapshot", by)
		if v := h.settle("web"); v.State != schemas.Running {
			t.Errorf("killed at %s, it is %s: %+v", at, v.State, v.Failure)
		}
		is("newest")
	}
	h.must("resume", "web", "--replace", "--snapshot", good)
	is("good")
	if v := h.view("web"); v.Snapshot.ID != good || v.Boot != "rollback" {
		t.Errorf("it goes on from %+v, boot %s", v.Snapshot, v.Boot)
	}
	h.must("audit", "--verify")
	h.must("rm", "--yes", "web")
	if left := h.left(); !slices.Equal(left, []string{"volume webdata"}) {
		t.Errorf("%q is left", left)
	}
}

// What has no health check has to run for a while.
func TestReplaceByWhatEnds(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.must("run", "--name", "job", "--image", "busybox:test", "--container-name", "job", "--idle", "never", "--network", "none", "--",
		"sh", "-c", "if [ -e /bad ]; then exit 7; fi; while :; do sleep 0.1; done")
	h.until("job", "touch /bad")
	h.must("checkpoint", "job")
	h.until("job", "rm /bad; echo kept >/f")
	r := h.Do("resume", "job", "--replace", "--healthy-within", "1s")
	if r.Code != 1 || !strings.Contains(r.Err, "it ended with status 7") {
		t.Errorf("replaced by what ends: %+v", r)
	}
	if out := h.until("job", "cat /f"); out != "kept" {
		t.Errorf("it has %q", out)
	}
	if containers := slices.DeleteFunc(h.left(), func(l string) bool { return !strings.HasPrefix(l, "container ") }); len(containers) != 1 {
		t.Errorf("there is %q", containers)
	}
}
