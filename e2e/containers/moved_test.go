package containers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// A container moves to a host whose engine has neither its image nor its volume, with what is written in both, and
// back again when that host is drained. It leaves nothing behind.
func TestMovedAndDrained(t *testing.T) {
	e, other := dockertest.Shared(t), dockertest.New(t)
	e.Busybox(t)
	images := "dir://" + t.TempDir()
	h := newHost(t, e, "--store", images)
	w := h.worker(other, images)
	there := &host{h.Stack, t, other}
	before, beforeThere := h.left(), there.left()
	const count = "n=$(cat /data/n 2>/dev/null || echo 0); while :; do n=$((n+1)); echo $n >/data/new; mv /data/new /data/n; sleep 0.05; done"
	h.must("run", "--name", "box", "--image", "busybox:test", "--container-name", "box", "--idle", "never", "--network", "none", "-v", "boxdata:/data", "--", "sh", "-c", count)
	n := h.number("box", "/data/n", 0)
	h.until("box", "echo here >/made")
	moved := func(how string, to, from *host, on string, move func() schemas.View) {
		t.Helper()
		v := move()
		if v.State != schemas.Running || string(v.Host) != on {
			t.Fatalf("it is %s on host %s after it was %s, want host %s", v.State, v.Host, how, on)
		}
		n = to.number("box", "/data/n", n)
		if made, err := to.in("box", "cat /made"); err != nil || made != "here\n" {
			t.Errorf("what was written in its layer is %q (%v)", made, err)
		}
		for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
			status, _ := from.state("box")
			if status == "gone" {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("where it came from its container is %s", status)
			}
		}
	}
	first := string(h.view("box").Host)
	moved("moved", there, h, w, func() (v schemas.View) {
		if err := json.Unmarshal([]byte(h.must("move", "--json", "box", "--host", w)), &v); err != nil {
			t.Fatal(err)
		}
		if m := v.Moved; m == nil || string(m.From) != first || string(m.To) != w {
			t.Errorf("its move is %+v", m)
		}
		return v
	})
	moved("drained", h, there, first, func() schemas.View {
		if out := h.must("host", "drain", "--force", w); !strings.Contains(out, "is drained") {
			t.Errorf("the drain says %q", out)
		}
		for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if v := h.settle("box"); v.State == schemas.Running {
				return v
			}
		}
		return h.view("box")
	})
	h.must("rm", "--yes", "box")
	for _, on := range []struct {
		*host
		before []string
	}{{h, before}, {there, beforeThere}} {
		for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
			left := on.left()
			if slices.Equal(left, on.before) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("on engine %s there is %q, and was %q", on.e.URL, left, on.before)
			}
		}
	}
	h.must("audit", "--verify")
}
