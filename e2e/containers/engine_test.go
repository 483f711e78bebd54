package containers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// An engine that is stopped and started stops its containers. Those that it starts again go
// on; of the others the sessions have failed, not ended, and have a way on; those that had
// ended before have. While the engine is away, a session that would need it is told so. Engines
// differ in what they still answer while they stop.
func TestEngineStopsAndStarts(t *testing.T) {
	t.Parallel() // on engines of its own
	for _, k := range slices.Compact([]dockertest.Kind{dockertest.Default(), dockertest.Current}) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			stopsAndStarts(t, dockertest.NewOf(t, k))
		})
	}
}

func stopsAndStarts(t *testing.T, e *dockertest.Engine) {
	e.Busybox(t)
	h := newHost(t, e)
	const script = "trap 'exit 0' TERM; echo started >>/log; while :; do sleep 0.05; done"
	run := func(name string, more ...string) {
		args := append([]string{"run", "--name", name, "--image", "busybox:test", "--container-name", name, "--idle", "never", "--network", "none"}, more...)
		h.must(append(args, "--", "sh", "-c", script)...)
		h.until(name, "[ -e /log ]")
	}
	run("plain")
	run("fresh")
	run("byhand")
	run("always", "--restart", "always")
	h.must("run", "--name", "over", "--image", "busybox:test", "--network", "none", "--", "sh", "-c", "exit 3")
	h.ended("over")
	h.must("checkpoint", "plain")
	h.until("plain", "echo later >>/log")
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) { // until the host has said it
		r := h.Do("run", "--name", "late", "--image", "busybox:test", "--", "true")
		if r.Code == 0 || !strings.Contains(r.Err, e.URL+" doesn't answer") {
			t.Fatalf("without an engine, run gives %+v", r)
		}
		if strings.Contains(r.Err, "no host can take it") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the host doesn't say that its engine is away: %+v", r)
		}
	}
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain", "fresh", "byhand"} {
		if v := h.becomes(name, schemas.Failed); v.Failure == nil || !strings.Contains(v.Failure.Text, "the Docker engine was stopped") {
			t.Errorf("session %s is %s, with %+v", name, v.State, v.Failure)
		}
	}
	if v := h.view("over"); v.State != schemas.Exited || v.Exit == nil || v.Exit.Code != 3 {
		t.Errorf("one that was over is %s, with %+v", v.State, v.Exit)
	}
	if out := h.until("always", "[ $(wc -l </log) = 2 ]"); out != "" {
		t.Errorf("it says %q", out)
	}
	if v := h.view("always"); v.State != schemas.Running {
		t.Errorf("one that the engine starts again is %s", v.State)
	}
	if _, err := e.Client.ContainerStart(t.Context(), "byhand", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	h.becomes("byhand", schemas.Running)
	h.until("byhand", "[ $(wc -l </log) = 2 ]")
	if out := h.must("history", "byhand"); !strings.Contains(out, "its container byhand was started by others after it had failed") {
		t.Errorf("of a container that was started by hand history says\n%s", out)
	}
	h.must("resume", "--clean", "fresh") // the container as it was
	h.until("fresh", "[ $(wc -l </log) = 2 ]")
	h.must("resume", "plain") // from its snapshot
	h.until("plain", "[ $(wc -l </log) = 2 ] && ! grep -q later /log")
	for _, name := range []string{"plain", "fresh", "byhand", "always", "over"} {
		h.must("rm", "--yes", name)
	}
	if left := h.left(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// ended waits until a session has.
func (h *host) ended(name string) {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if slices.Contains([]schemas.State{schemas.Exited, schemas.Failed}, h.view(name).State) {
			return
		}
	}
	h.t.Fatalf("session %s doesn't end", name)
}
