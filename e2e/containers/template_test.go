package containers

import (
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// A template of a container, and forks of its snapshots, have its files and volumes of that moment: also when the container has
// ended, and after its session was removed.
func TestTemplateAndForkOfASnapshot(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.must("run", "--name", "box", "--image", "busybox:test", "--container-name", "box", "--idle", "never", "--network", "none", "-v", "/data", "--", "sh", "-c", "while [ ! -e /tmp/end ]; do sleep 0.05; done; rm /tmp/end; exit 3")
	h.runs("box")
	h.until("box", "echo 1 >/home/f; echo 1 >/data/f")
	h.must("checkpoint", "box")
	one := h.view("box").Snapshot.ID
	h.until("box", "echo 2 >/home/f; echo 2 >/data/f")
	h.must("checkpoint", "box")
	h.until("box", "touch /tmp/end")
	h.settleAs("box", schemas.Exited)
	const look = "cat /home/f /data/f"
	h.must("fork", "box", "first", "--snapshot", one)
	if out := h.until("diapause-default-first", look); out != "1\n1" {
		t.Errorf("the fork of the first snapshot has %q", out)
	}
	if v := h.view("first"); v.Origin == nil || v.Origin.Session != "box" || v.Origin.Snapshot != one {
		t.Errorf("its origin is %+v", v.Origin)
	}
	h.must("template", "create", "py", "--from", "box", "--snapshot", one)
	h.must("rm", "--yes", "first")
	h.must("rm", "--yes", "--shred", "box")
	h.must("run", "--template", "py", "--name", "second")
	if out := h.until("diapause-default-second", look); out != "1\n1" {
		t.Errorf("the session from the template has %q", out)
	}
	if v := h.view("second"); v.Origin == nil || v.Origin.Template != "py" || v.Origin.Session != "box" {
		t.Errorf("its origin is %+v", v.Origin)
	}
	h.must("rm", "--yes", "second")
	h.must("template", "rm", "py")
	if left := h.left(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// settleAs waits until a session is in a state, and nothing is being done to it.
func (h *host) settleAs(name string, want schemas.State) {
	h.t.Helper()
	h.must("wait", name, "--state", string(want), "--timeout", limit.String())
	if v := h.settle(name); v.State != want {
		h.t.Fatalf("session %s is %s, not %s", name, v.State, want)
	}
}
