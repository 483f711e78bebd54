package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// program is the one under test, built once.
var program, dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = stack.Dir(); err == nil {
		program, err = stack.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := dockertest.Run(m)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

// rounds is how often a test repeats what it does: all with DIAPAUSE_LONG=1, else few.
func rounds(few, all int) int {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return all
	}
	return few
}

// host is a daemon with an engine.
type host struct {
	*stack.Stack
	t *testing.T
	e *dockertest.Engine
}

// newHost starts a daemon on the tests' engine, and looks at the end whether anything is
// left.
func newHost(t *testing.T, e *dockertest.Engine, args ...string) *host {
	t.Helper()
	at, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{stack.New(program, at), t, e}
	args = append([]string{"--docker", e.URL}, args...)
	if err := h.Up(args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.Log())
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) must(args ...string) string {
	h.t.Helper()
	out, err := h.Must(args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *host) view(name string) schemas.View {
	h.t.Helper()
	v, err := h.View(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// in runs a shell command in a container and gives what it printed.
func (h *host) in(container, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return h.e.Exec(ctx, container, "sh", "-c", script)
}

// runs waits until a container runs: a session is recorded to run before its first
// instruction, and the engine takes a moment to come to it.
func (h *host) runs(container string) {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if status, _ := h.state(container); status == "running" {
			return
		}
	}
	h.t.Fatalf("container %s doesn't run; there is\n%s", container, h.Do("ls").Out)
}

// number reads a number that a program in a container writes; wait until it is more than
// what it was.
func (h *host) number(container, file string, more int) int {
	h.t.Helper()
	h.runs(container)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		out, err := h.in(container, "cat "+file+" 2>/dev/null || true")
		if err != nil {
			h.t.Fatal(err)
		}
		if n, err := strconv.Atoi(strings.TrimSpace(out)); err == nil && n > more {
			return n
		}
	}
	h.t.Fatalf("%s in container %s stays at %d or less", file, container, more)
	return 0
}

// left lists what is on the engine.
func (h *host) left() []string {
	h.t.Helper()
	out, err := h.e.Leftovers(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// settle waits until nothing is being done to a session.
func (h *host) settle(name string) schemas.View {
	h.t.Helper()
	var v schemas.View
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if v = h.view(name); v.Op == "" && (v.State == schemas.Running || v.State == schemas.Suspended || v.State == schemas.Exited || v.State == schemas.Failed) {
			return v
		}
	}
	h.t.Fatalf("session %s is still %s, with a %s under way", name, v.State, v.Op)
	return v
}

func (h *host) state(container string) (status, restart string) {
	h.t.Helper()
	got, err := h.e.Client.ContainerInspect(context.Background(), container, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return "gone", ""
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return string(got.Container.State.Status), string(got.Container.HostConfig.RestartPolicy.Name)
}

func (h *host) remove(container string, volumes ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := h.e.Client.ContainerRemove(ctx, container, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	for _, v := range volumes {
		_, volumeErr := h.e.Client.VolumeRemove(ctx, v, client.VolumeRemoveOptions{Force: true})
		err = errors.Join(err, volumeErr)
	}
	if err != nil {
		h.t.Error(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
