package containers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// said is what a program has printed so far.
type said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *said) find(r *regexp.Regexp) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.FindStringSubmatch(s.all.String())
}

var ready = regexp.MustCompile(`(?m)^ready: host (\S+), `)

// worker starts one beside the daemon, on an engine of its own, until the test ends.
func (h *host) worker(e *dockertest.Engine, store string, env ...string) (id string) {
	h.t.Helper()
	data, err := os.MkdirTemp(dir, "worker-")
	if err != nil {
		h.t.Fatal(err)
	}
	w := exec.Command(program, "worker", "--data", data, "--nats", h.Secure, "--creds", filepath.Join(h.Data, "creds", "system.nk"), "--store", store, "--docker", e.URL)
	var out said
	w.Env, w.Stdout, w.Stderr = append(os.Environ(), env...), &out, &out
	w.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := threadtest.Start(w); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = w.Process.Signal(syscall.SIGTERM) // how it ended is looked at next
		if err := w.Wait(); err != nil || h.t.Failed() {
			h.t.Errorf("the worker: %v\n%s", err, out.all.Bytes())
		}
	})
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := out.find(ready); m != nil {
			return m[1]
		}
	}
	h.t.Fatal("the worker isn't ready")
	return ""
}

// What is kept of a container that ended goes when its session has gone on on another host,
// and volumes that were there before the session stay.
func TestKeptContainerOfASessionThatWentElsewhere(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e, other := dockertest.Shared(t), dockertest.New(t)
	e.Busybox(t)
	other.Busybox(t)
	images := "dir://" + t.TempDir()
	h := newHost(t, e, "--store", images)
	if _, err := other.Client.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: "theirs"}); err != nil {
		t.Fatal(err)
	}
	w := h.worker(other, images, failpoint.Variable+"=docker.restore.made=error;docker.restore.made=error@2;docker.restore.made=error@3") // it restores nothing
	there := host{h.Stack, t, other}
	before := there.left()
	h.must("run", "--name", "vx", "--host", w, "--image", "busybox:test", "--container-name", "vx", "--idle", "never", "--network", "none",
		"-v", "vxdata:/data", "-v", "theirs:/theirs", "--", "sh", "-c", "echo started >>/data/log; while ! [ -e /end ]; do sleep 0.01; done; rm /end")
	there.until("vx", "[ $(wc -l </data/log) = 1 ]")
	h.must("checkpoint", "vx")
	h.End("vx", "/end")
	h.ended("vx")
	if left := there.left(); len(left) != len(before)+2 {
		t.Fatalf("of a container that ended there is %q", left)
	}
	h.must("rollback", "vx", strings.Fields(strings.Split(h.must("snapshots", "vx"), "\n")[1])[0])
	if v := h.view("vx"); v.State != schemas.Running || string(v.Host) == w {
		t.Fatalf("it is %s on host %s", v.State, v.Host)
	}
	h.until("vx", "[ $(wc -l </data/log) = 2 ]")
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		left := there.left()
		if slices.Equal(left, before) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("on the first host there is %q, and was %q", left, before)
		}
	}
	h.must("rm", "--yes", "vx")
	if _, err := other.Client.VolumeRemove(t.Context(), "theirs", client.VolumeRemoveOptions{}); err != nil {
		t.Error(err)
	}
	h.must("audit", "--verify")
}
