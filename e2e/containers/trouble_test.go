package containers

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// refuses has a verb fail with words that say why.
func (h *host) refuses(words string, args ...string) {
	h.t.Helper()
	if r := h.Do(args...); r.Code == 0 || !strings.Contains(r.Err, words) {
		h.t.Errorf("%q: %+v, want %q", args, r, words)
	}
}

// A resume in whose place something else is says so, leaves nothing behind, and works when
// that is gone.
func TestPlaceTaken(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	port, front := freePort(t), fmt.Sprintf("front-%d", os.Getpid())
	network(t, e, front)
	h := newHost(t, e)
	h.must("run", "--name", "web", "--image", "busybox:test", "--container-name", "web", "--idle", "never", "--join", front,
		"-p", fmt.Sprintf("127.0.0.1:%d:80", port), "-v", "webdata:/data", "--", "sleep", "1000000")
	h.until("web", "echo kept >/data/f; echo kept >/f")
	h.must("suspend", "web")
	before := h.left()

	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	h.refuses(fmt.Sprintf("port %d of this host", port), "ensure", "web")
	l.Close()
	if _, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: "web", Config: &container.Config{Image: "busybox:test", Cmd: []string{"true"}}}); err != nil {
		t.Fatal(err)
	}
	h.refuses("already in use", "ensure", "web")
	if v := h.view("web"); v.State != schemas.Suspended || v.Failure == nil || !strings.Contains(v.Failure.Text, "already in use") {
		t.Errorf("it is %s, with %+v", v.State, v.Failure)
	}
	h.remove("web")
	if left := h.left(); fmt.Sprint(left) != fmt.Sprint(before) {
		t.Errorf("there was %q, and is %q", before, left)
	}
	h.must("ensure", "web")
	if out := h.until("web", "cat /data/f /f"); out != "kept\nkept" {
		t.Errorf("it has %q", out)
	}
}

// An engine that is restarted while it stands still for a capture: the suspend fails and says
// why, the container goes on when the engine is back, and can be suspended then.
func TestEngineRestartsWhilePaused(t *testing.T) {
	e := dockertest.New(t, "--live-restore")
	e.Busybox(t)
	h := newHost(t, e)
	h.must("run", "--name", "work", "--image", "busybox:test", "--container-name", "work", "--idle", "never", "--network", "none", "-v", "data:/data", "--", "sh", "-c", counting)
	h.number("work", "/data/n", 0)
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	h.Env = append(os.Environ(), failpoint.Variable+"="+string(failpoint.DockerPaused)+"=pause:2s")
	err := h.Up("--docker", e.URL)
	h.Env = nil
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan stack.Result, 1)
	go func() { came <- h.Do("suspend", "work") }()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := h.state("work"); status == "paused" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it isn't paused")
		}
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	r := <-came
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	if r.Code == 0 || !strings.Contains(r.Err, "doesn't answer") {
		t.Errorf("the suspend says %+v", r)
	}
	last := h.number("work", "/data/n", 0)
	if v := h.settle("work"); v.State != schemas.Running {
		t.Errorf("it is %s: %+v", v.State, v.Failure)
	}
	h.must("suspend", "work")
	h.must("ensure", "work")
	h.number("work", "/data/n", last)
	if out, err := h.in("work", "if [ -e /torn ]; then cat /torn; fi"); err != nil || out != "" {
		t.Errorf("its layer and its volume are not of one moment: %q, %v", out, err)
	}
	h.must("audit", "--verify")
}
