package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// at gives a sink that has something happen when an entry is added.
func at(entry string, do func() error) *drivertest.Image {
	return &drivertest.Image{Fail: func(e image.Entry) error {
		if e.Name == entry {
			return do()
		}
		return nil
	}}
}

// troubled is an image that has something happen when a file of it is read.
type troubled struct {
	*drivertest.Image
	at string
	do func() error
}

func (s *troubled) Open(name string) (io.ReadCloser, error) {
	if name == s.at {
		if err := s.do(); err != nil {
			return nil, err
		}
	}
	return s.Image.Open(name)
}

func (s *troubled) Place(ctx context.Context, targets []image.Target) error {
	if slices.ContainsFunc(targets, func(t image.Target) bool { return t.Name == s.at }) {
		if err := s.do(); err != nil {
			return err
		}
	}
	return s.Image.Place(ctx, targets)
}

// refused makes sure of an error that nothing but a change helps against, and of its words.
func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v (%s), want %q", what, err, driver.KindOf(err), w)
		}
	}
}

// What someone does to a container while it is captured is seen: no image of half of it is
// taken for a snapshot.
func TestTouchedDuringCapture(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	engine := x.e.Client
	for what, c := range map[string]struct {
		do    func(id string) error
		says  string
		kind  driver.Kind
		state driver.State
	}{
		"removed": {func(id string) error {
			_, err := engine.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true})
			return err
		}, "was removed by someone else", driver.Refused, driver.Exited},
		"let go on": {func(id string) error {
			_, err := engine.ContainerUnpause(t.Context(), id, client.ContainerUnpauseOptions{})
			return err
		}, "was unpaused by someone else", driver.Transient, driver.Running},
		"killed": {func(id string) error {
			_, err := engine.ContainerKill(t.Context(), id, client.ContainerKillOptions{Signal: "SIGKILL"})
			return err
		}, "its container ended meanwhile", driver.Transient, driver.Exited},
		"restarted": {func(id string) error {
			now := 0
			_, err := engine.ContainerRestart(t.Context(), id, client.ContainerRestartOptions{Timeout: &now})
			return err
		}, "was unpaused by someone else", driver.Transient, driver.Running},
	} {
		x.start("a", withDocker(dockerspec.Options{Volumes: []string{"vol:/vol"}}))
		x.sh("a", "echo 1 >/home/f; echo 2 >/vol/f")
		id := x.inspect("a").ID
		img := at("volumes/0", func() error { return c.do(id) })
		_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), img)
		if err == nil || driver.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "session a") {
			t.Errorf("%s: %v (%s), want %q", what, err, driver.KindOf(err), c.says)
		}
		if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != c.state {
			t.Errorf("%s: it is %s, want %s", what, i.State, c.state)
		}
		x.stop("a")
		clean(t, x.e)
		if err := os.Remove(x.d.notes.file("a")); err != nil { // the next one starts afresh
			t.Fatal(err)
		}
	}
}

// An engine that is restarted in the middle of a capture or a restore: what was being done
// fails for now, the session is what it was, and the same works afterwards.
func TestEngineRestarts(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	x := testerOn(t, dockertest.New(t, "--live-restore"))
	spec := withDocker(dockerspec.Options{Volumes: []string{"vol:/vol"}})
	i := x.start("a", spec)
	x.sh("a", "echo 1 >/home/f; echo 2 >/vol/f")
	_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), at("volumes/0", x.e.Stop))
	if driver.KindOf(err) != driver.Transient || err == nil || !strings.Contains(err.Error(), "doesn't answer") {
		t.Errorf("a capture without the engine: %v", err)
	}
	if err := x.e.Run(); err != nil {
		t.Fatal(err)
	}
	now := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a"))
	if now.State != driver.Frozen || now.PID != i.PID {
		t.Errorf("it was %+v and is %+v", i, now)
	}
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 3)); err != nil {
		t.Fatal(err)
	}
	if out := x.sh("a", "cat /home/f /vol/f"); out != "1\n2" {
		t.Errorf("it has %q", out)
	}
	img := x.suspend("a", 4)
	clean(t, x.e)

	source := &troubled{img, "volumes/0/f", x.e.Stop}
	_, err = x.d.Restore(t.Context(), drivertest.Fence("a", 5), spec, source, schemas.BootResume, func(ctx) error {
		t.Error("it was recorded to run")
		return nil
	})
	if driver.KindOf(err) != driver.Transient || err == nil || !strings.Contains(err.Error(), "doesn't answer") {
		t.Errorf("a restore without the engine: %v", err)
	}
	if err := x.e.Run(); err != nil {
		t.Fatal(err)
	}
	if all := must[[]driver.Instance](t)(x.d.Recover(t.Context())); len(all) != 0 {
		t.Errorf("after it there is %+v", all)
	}
	clean(t, x.e)
	x.restore("a", 6, img, spec)
	if out := x.sh("a", "cat /home/f /vol/f"); out != "1\n2" {
		t.Errorf("resumed, it has %q", out)
	}
	x.stop("a")
}

// An engine without room says so, for each kind of write, and nothing stays of what was started.
func TestEngineIsFull(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{Volumes: []string{"vol:/vol"}})
	x.start("a", spec)
	x.sh("a", "dd if=/dev/urandom of=/home/f bs=1M count=12; dd if=/dev/urandom of=/vol/f bs=1M count=12")
	img := x.suspend("a", 2)

	small, err := os.MkdirTemp("/dev/shm", "diapause-small-")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(small, unix.MNT_DETACH), os.Remove(small)); err != nil {
			t.Error(err)
		}
	})
	e := dockertest.New(t, "--data-root", filepath.Join(small, "data"))
	y := &tester{t, e, open(t, e, t.TempDir())}
	fill := filepath.Join(small, "fill")
	for what, left := range map[string]int64{"the image": 512 << 10, "the layer": 8 << 20, "the volume": 20 << 20} {
		var st unix.Statfs_t
		if err := unix.Statfs(small, &st); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fill, make([]byte, int64(st.Bavail)*st.Bsize-left), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := y.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, drivertest.Begin)
		refused(t, "no room for "+what, err, "no room left", "make room and try again")
		clean(t, e)
		if images := must[client.ImageListResult](t)(e.Client.ImageList(t.Context(), client.ImageListOptions{All: true})); len(images.Items) != 0 {
			t.Errorf("no room for %s: there is %+v", what, images.Items)
		}
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
	}
	y.restore("a", 4, img, spec)
	if out := y.sh("a", "stat -c %s /home/f /vol/f"); out != "12582912\n12582912" {
		t.Errorf("with room it has %q", out)
	}
	y.stop("a")
}

// A name that another container took while the session was suspended is left to it.
func TestNameTakenMeanwhile(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{Name: "wanted", Volumes: []string{"vol:/vol"}})
	x.start("a", spec)
	img := x.suspend("a", 2)
	his := must[client.ContainerCreateResult](t)(x.e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: "wanted", Config: &container.Config{Image: "busybox:test", Cmd: []string{"true"}}}))
	_, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, drivertest.Begin)
	refused(t, "a name in use", err, "wanted", "already in use")
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); !slices.Equal(left, []string{"container /wanted (Created)"}) {
		t.Errorf("there is %q", left)
	}
	if _, err := x.e.Client.ContainerRemove(t.Context(), his.ID, client.ContainerRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	x.restore("a", 4, img, spec)
	x.stop("a")
}

// An engine of another kind than the tests have: by what it answers.
func TestOtherEngines(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	t.Run("old", func(t *testing.T) {
		x := testerOn(t, otherEngine(t, e, func(_ string, h http.Header, _ map[string]any) { h.Set("Api-Version", "1.40") }))
		_, err := x.d.Start(t.Context(), drivertest.Fence("a", 1), withDocker(dockerspec.Options{Image: "busybox:test"}), drivertest.Begin)
		refused(t, "API 1.40", err, "speaks API 1.40", "want 1.41 or later; update it to Docker 20.10")
		_, err = x.d.Recover(t.Context())
		refused(t, "API 1.40", err, "speaks API 1.40")
	})
	t.Run("podman", func(t *testing.T) {
		x := testerOn(t, otherEngine(t, e, func(path string, _ http.Header, body map[string]any) {
			if strings.HasSuffix(path, "/version") {
				body["Components"] = []any{map[string]any{"Name": "Podman Engine", "Version": "4.3.1"}} // as 4.3.1 answers
			}
		}))
		_, err := x.d.Fingerprint(t.Context())
		refused(t, "Podman", err, "is Podman 4.3.1", "only containers of Docker's own engine can be sessions")
	})
	t.Run("volume driver", func(t *testing.T) {
		x := testerOn(t, otherEngine(t, e, func(path string, _ http.Header, body map[string]any) {
			if strings.Contains(path, "/volumes/") && body["Name"] == "far" {
				body["Driver"] = "somewhere"
			}
		}))
		x.start("a", withDocker(dockerspec.Options{Volumes: []string{"far:/far"}}))
		_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), &drivertest.Image{})
		refused(t, "a volume driver", err, "volume far at /far", "volume driver somewhere", "local driver")
		if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Running {
			t.Errorf("it is %s", i.State)
		}
		x.stop("a")
	})
	// The containerd image store names a snapshotter, and no directories. Here nothing says where
	// containerd is, as before Docker 27, or where only the engine's own socket can be seen.
	t.Run("containerd image store", func(t *testing.T) {
		x := testerOn(t, otherEngine(t, e, func(path string, _ http.Header, body map[string]any) {
			if _, ok := body["State"]; ok {
				body["GraphDriver"] = map[string]any{"Name": "overlayfs", "Data": nil}
			}
			delete(body, "Containerd")
		}))
		spec := withDocker(dockerspec.Options{Volumes: []string{"vol:/vol"}})
		x.start("a", spec)
		x.sh("a", "echo 1 >/home/f; echo 2 >/vol/f; rm /etc/lower")
		img, got := x.capture("a", 2)
		if w := textOf(got.Warnings); !strings.Contains(w, "all of the file system is in the snapshot") {
			t.Errorf("the warnings are %v", got.Warnings)
		}
		if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
			t.Fatal(err)
		}
		clean(t, e)
		x.restore("a", 3, img, spec)
		if out := x.sh("a", "cat /home/f /vol/f; test -e /etc/lower || echo gone"); out != "1\n2\ngone" {
			t.Errorf("resumed, it has %q", out)
		}
		x.stop("a")
	})
}

// A session whose container is gone after a failed start may have run: it isn't started
// again, from an image that knows nothing of it.
func TestRemovedWhileItsStartFails(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	cut := errors.New("no answer")
	x.arm(failpoint.DockerReplaces, func(ctx context.Context) error {
		id := must[note](t)(x.d.notes.read("a")).Container
		_, err := x.d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
		return errors.Join(cut, err)
	})
	t.Cleanup(func() { x.stop("a") })
	spec := dockerspec.With(schemas.Spec{Command: []string{"sleep", "1000"}, Network: "none"}, dockerspec.Options{Name: "gone", Image: "busybox:test"})
	if _, err := x.d.Start(t.Context(), drivertest.Fence("a", 1), spec, drivertest.Begin); !errors.Is(err, cut) {
		t.Fatal(err)
	}
	if i, err := x.d.Inspect(t.Context(), "a"); err != nil || i.State != driver.Exited || !i.Lost {
		t.Errorf("it is %+v, %v; it ran, and was lost", i, err)
	}
}
