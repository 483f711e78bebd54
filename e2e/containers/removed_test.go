package containers

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// takeAway is `docker rm -f`: what has a name outlives it.
func (h *host) takeAway(container string) {
	h.t.Helper()
	if _, err := h.e.Client.ContainerRemove(h.t.Context(), container, client.ContainerRemoveOptions{Force: true}); err != nil {
		h.t.Fatal(err)
	}
}

// becomes waits until a session is in a state and nothing is being done to it.
func (h *host) becomes(name string, s schemas.State) (v schemas.View) {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if v = h.view(name); v.State == s && v.Op == "" {
			return v
		}
		if v.State == schemas.Exited {
			break
		}
	}
	h.t.Fatalf("session %s is %s with %+v, not %s", name, v.State, v.Failure, s)
	return v
}

// mknod makes a device that does nothing.
func mknod(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
}

// failsFor waits until a session has failed, and wants to be told why.
func (h *host) failsFor(name, why string) {
	h.t.Helper()
	if v := h.becomes(name, schemas.Failed); v.Failure == nil || !strings.Contains(v.Failure.Text, why) {
		h.t.Errorf("it is %s, with %+v, want %q", v.State, v.Failure, why)
	}
	if !slices.Contains(h.left(), "volume vxdata") {
		h.t.Fatalf("its volume is gone: there is %q", h.left())
	}
}

// A container that someone removes, while the program runs and while it doesn't, takes
// nothing with it that has a name: the session goes on with it, even if something fails then,
// until it is removed itself.
func TestRemovedByOthers(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	port := freePort(t)
	h.must("run", "--name", "vx", "--image", "busybox:test", "--container-name", "vx", "--idle", "never",
		"-p", fmt.Sprintf("127.0.0.1:%d:80", port), "-v", "vxdata:/data", "-v", "/nameless", "--", "sh", "-c", "echo started >>/data/log; exec sleep 1000000")
	h.until("vx", "[ $(wc -l </data/log) = 1 ]")
	h.takeAway("vx")
	h.failsFor("vx", "removed by someone else")

	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	h.refuses(fmt.Sprintf("port %d of this host", port), "resume", "--clean", "vx")
	l.Close()
	h.failsFor("vx", "")
	h.killIn(failpoint.DockerStarts, "resume", "--clean", "vx")
	h.until("vx", "[ $(wc -l </data/log) = 2 ]")

	h.must("checkpoint", "vx")
	h.until("vx", "echo later >>/data/log")
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	h.takeAway("vx")
	if err := h.Up("--docker", e.URL); err != nil {
		t.Fatal(err)
	}
	h.failsFor("vx", "removed by someone else")
	h.must("resume", "vx")
	if got := h.until("vx", "[ $(wc -l </data/log) = 3 ] && tail -n 1 /data/log"); got != "started" { // as it was captured, and started once more
		t.Errorf("after a resume its last line is %q", got)
	}
	h.must("suspend", "vx")
	if left := h.left(); len(left) > 0 {
		t.Errorf("while it sleeps there is %q", left)
	}
	h.must("ensure", "vx")
	h.takeAway("vx")
	h.failsFor("vx", "removed by someone else")
	h.must("rm", "--yes", "vx")
	h.must("audit", "--verify")
	if left := h.left(); len(left) > 0 {
		t.Errorf("when it is removed there is %q", left)
	}
}

// What the engine can't start, which it says when the record has the session run already, is
// told by the verb that asked for it, and the name is free again.
func TestNotStartable(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	for _, bad := range []struct{ flag, value, says string }{
		{"--user", "nosuch", "nosuch"}, {"--device", "/dev/nosuch", "/dev/nosuch"}, {"--cpus", "0.0001", "cpu"},
	} {
		h.refuses(bad.says, "run", "--name", "bad", "--image", "busybox:test", "--container-name", "bad", "--network", "none", bad.flag, bad.value, "--", "sleep", "1000000")
		if left := h.left(); len(left) > 0 {
			t.Fatalf("with %s %s there is %q", bad.flag, bad.value, left)
		}
	}
}

// A session that can't be started any more is what it was before it was to go on.
func TestNotStartableAgain(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	device := t.TempDir() + "/null"
	mknod(t, device)
	h.must("run", "--name", "dv", "--image", "busybox:test", "--container-name", "dv", "--idle", "never", "--network", "none", "-v", "vxdata:/data",
		"--device", device, "--", "sh", "-c", "echo started >>/data/log; exec sleep 1000000")
	h.until("dv", "[ $(wc -l </data/log) = 1 ]")
	h.must("suspend", "dv")
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"resume", "ensure"} {
		h.refuses(device, verb, "dv")
		if v := h.becomes("dv", schemas.Suspended); v.Failure == nil || !strings.Contains(v.Failure.Text, device) || v.Failure.Op != schemas.OpResume {
			t.Errorf("after %s it is %s, with %+v", verb, v.State, v.Failure)
		}
	}
	if out := h.must("history", "dv"); strings.Contains(out, "before the first instruction") || !strings.Contains(out, device) {
		t.Errorf("its history says\n%s", out)
	}
	if left := h.left(); len(left) > 0 {
		t.Errorf("while it sleeps there is %q", left)
	}
	mknod(t, device)
	h.must("ensure", "dv")
	h.until("dv", "[ $(wc -l </data/log) = 2 ]")

	h.takeAway("dv")
	h.failsFor("dv", "removed by someone else")
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	h.refuses(device, "resume", "--clean", "dv")
	h.failsFor("dv", device)
	mknod(t, device)
	h.must("resume", "--clean", "dv")
	h.until("dv", "[ $(wc -l </data/log) = 3 ]")

	if _, err := e.Client.ContainerKill(t.Context(), "dv", client.ContainerKillOptions{}); err != nil { // it ends, and is kept
		t.Fatal(err)
	}
	h.ended("dv")
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	h.refuses(device, "resume", "--clean", "dv")
	h.failsFor("dv", device)
	mknod(t, device)
	h.must("resume", "--clean", "dv")
	h.until("dv", "[ $(wc -l </data/log) = 4 ]")

	h.must("checkpoint", "dv")
	if err := os.Remove(device); err != nil { // neither of the two can be started then
		t.Fatal(err)
	}
	h.refuses(device, "resume", "dv", "--replace")
	if v := h.becomes("dv", schemas.Suspended); v.Failure == nil || !strings.Contains(v.Failure.Text, device) {
		t.Errorf("after a replace it is %s, with %+v", v.State, v.Failure)
	}
	mknod(t, device)
	h.must("ensure", "dv")
	h.must("audit", "--verify")
}
