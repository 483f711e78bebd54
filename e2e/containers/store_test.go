package containers

import (
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// With today's engine and the containerd image store a session is what it is with the engine
// that the other tests have: a snapshot holds what changed, and the image below once.
func TestContainerdImageStore(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel() // on an engine of its own
	e := dockertest.NewOf(t, dockertest.Containerd)
	e.Busybox(t)
	h := newHost(t, e)
	if r := h.Do("doctor", "--docker", e.URL); !strings.Contains(r.Out, "containerd image store with overlayfs, "+e.URL) {
		t.Errorf("doctor says %q %q", r.Out, r.Err)
	}
	const script = "dd if=/dev/urandom of=/big bs=1M count=8; dd if=/dev/urandom of=/data/big bs=1M count=8; touch /ready; while :; do sleep 0.05; done"
	h.must("run", "--name", "a", "--image", "busybox:test", "--container-name", "aa", "--network", "none", "-v", "/data", "--idle", "never", "--", "sh", "-c", "[ -e /ready ] || { "+script+"; }; sleep 1000")
	h.until("aa", "[ -e /ready ]")
	h.must("checkpoint", "a")
	if s := h.view("a").Snapshot; s == nil || s.NewBytes < 17<<20 || s.NewBytes > 24<<20 {
		t.Errorf("the first snapshot is %+v", s)
	}
	h.until("aa", "rm /etc/lower; echo 1 >/home/f; echo 2 >/data/f")
	h.must("suspend", "a")
	if s := h.view("a").Snapshot; s == nil || s.NewBytes > 1<<20 {
		t.Errorf("the next snapshot is %+v", s)
	}
	if left := h.left(); len(left) > 0 {
		t.Errorf("while it sleeps there is %q", left)
	}
	h.must("resume", "a")
	const look = "cat /home/f /data/f; [ -e /etc/lower ] || echo gone"
	if out := h.until("aa", look); out != "1\n2\ngone" {
		t.Errorf("resumed, it has %q", out)
	}
	h.must("fork", "a", "b")
	if out := h.until("diapause-default-b", look); out != "1\n2\ngone" {
		t.Errorf("the fork has %q", out)
	}
	h.must("rm", "--yes", "a")
	h.must("rm", "--yes", "b")
	if left := h.left(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
