package containers

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// What a container prints can be read, while it sleeps and when it is over as well, and
// commands run in it.
func TestLogsAndExec(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	const container = "diapause-default-talk"
	h.must("run", "--name", "talk", "--image", "busybox:test", "--idle", "never", "--network", "none", "--",
		"sh", "-c", "echo said; echo cried >&2; while ! [ -e /end ]; do sleep 0.05; done; rm /end; echo bye; exit 3")
	h.runs(container)
	r := h.Do("exec", "talk", "--", "sh", "-c", "cat; echo inside; echo oh >&2; exit 5")
	if r.Code != 5 || r.Out != "inside\n" || r.Err != "oh\n" {
		t.Errorf("exec gives %+v", r)
	}
	for what, status := range map[string]int{"/no/such": 127, "nonesuch": 127, "/etc": 126} {
		if r := h.Do("exec", "talk", what); r.Code != status {
			t.Errorf("exec of %s gives %+v, want status %d", what, r, status)
		}
	}
	logs := func(when string) {
		t.Helper()
		if r := h.Do("logs", "talk"); r.Code != 0 || r.Out != "said\n" || r.Err != "cried\n" {
			t.Errorf("%s, logs gives %+v", when, r)
		}
	}
	logs("while it runs")
	h.must("checkpoint", "talk")
	h.must("verify", "talk", "--restore") // beside it
	if left := h.left(); len(left) != 1 || !strings.HasPrefix(left[0], "container /"+container+" (Up") {
		t.Errorf("after a trial restore there is %q", left)
	}
	h.must("suspend", "talk")
	logs("while it sleeps")
	if out := h.must("exec", "talk", "--", "echo", "awake"); out != "awake\n" { // it is resumed for that
		t.Errorf("exec gives %q", out)
	}
	h.End("talk", "/end")
	v := h.settle("talk")
	for v.State == "running" {
		v = h.settle("talk")
	}
	if v.Exit == nil || v.Exit.Code != 3 {
		t.Errorf("it ended as %+v", v.Exit)
	}
	if r := h.Do("logs", "talk"); r.Code != 0 || r.Out != "said\nbye\n" {
		t.Errorf("when it is over, logs gives %+v", r)
	}
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) { // what it has is kept
		if left := h.left(); len(left) == 1 && strings.HasPrefix(left[0], "container /"+container+" (Exited (3)") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("when it is over, there is %q", left)
		}
	}
	h.must("resume", "--clean", "talk") // and is there when it is started again
	h.until(container, "true")
	h.must("rm", "--yes", "talk")
	if left := h.left(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// No command can run in a container that doesn't: anyone who wants one is told what the container
// is, and what makes it run.
func TestExecInOneThatDoesNotRun(t *testing.T) {
	e := dockertest.Shared(t)
	h := newHost(t, e)
	t.Cleanup(func() { h.remove("theirs") })
	_, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: "theirs", Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sleep", "1000000"}}, HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.must("adopt", "--container", "theirs", "--name", "quiet")
	h.listedAs("quiet", "running (created)")
	h.refuses("run a command in session quiet: its container is created", "exec", "quiet", "--", "true")
	h.refuses("`docker start theirs`", "exec", "quiet", "--", "true")
	if _, err := e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	h.must("exec", "quiet", "--", "true")
	if _, err := e.Client.ContainerPause(t.Context(), "theirs", client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	h.refuses("its container is paused", "exec", "quiet", "--", "true")
	h.refuses("`docker unpause theirs`", "exec", "quiet", "--", "true")
	h.listedAs("quiet", "running (paused)")
	h.must("rm", "--yes", "quiet")
}

// listedAs waits for a session to be listed with a state.
func (h *host) listedAs(name, state string) {
	h.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		all := h.must("ls")
		if regexp.MustCompile("(?m)^" + name + " +" + regexp.QuoteMeta(state) + " ").MatchString(all) {
			return
		} else if time.Now().After(end) {
			h.t.Fatalf("session %s isn't listed as %s:\n%s", name, state, all)
		}
	}
}
