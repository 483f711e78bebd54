package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// quietContainer makes a container that the driver knows nothing of and that doesn't run:
// never started, or ended with a status.
func quietContainer(t *testing.T, e *dockertest.Engine, name string, ended bool) {
	t.Helper()
	got, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sh", "-c", "echo ran >>/ran; echo ran >>/data/ran; exit 7"}},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{"data-of-" + name + ":/data"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := afterwards(t)
		_, err := e.Client.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true})
		if missing(err) {
			err = nil
		}
		_, volumeErr := e.Client.VolumeRemove(ctx, "data-of-"+name, client.VolumeRemoveOptions{})
		if err := errors.Join(err, volumeErr); err != nil {
			t.Error(err)
		}
	})
	if !ended {
		return
	}
	start(t, e, got.ID)
	w := e.Client.ContainerWait(t.Context(), got.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
	case err := <-w.Error:
		t.Fatal(err)
	}
}

func start(t *testing.T, e *dockertest.Engine, id string) {
	t.Helper()
	if _, err := e.Client.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
}

// contentOf reads a file of a container that needn't run.
func contentOf(t *testing.T, e *dockertest.Engine, name, file string) string {
	t.Helper()
	got, err := e.Client.CopyFromContainer(t.Context(), name, client.CopyFromContainerOptions{SourcePath: file})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Content.Close()
	r := tar.NewReader(got.Content)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	return string(must[[]byte](t)(io.ReadAll(r)))
}

// A container that doesn't run is captured as one that does, and comes back as it was: never
// started, or ended with its status; nothing is executed in it.
func TestQuietContainers(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"created": false, "exited": true} {
		for kept, remove := range map[string]bool{"held": false, "removed": true} {
			t.Run(name+" and "+kept, func(t *testing.T) { quiet(t, ended, remove) })
		}
	}
}

func quiet(t *testing.T, ended, remove bool) {
	x := newTester(t)
	quietContainer(t, x.e, "quiet", ended)
	was := look(t, x.e, "quiet").State
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "quiet", Remove: remove})
	x.start("a", spec)
	x.d = open(t, x.e, x.d.notes.dir) // a restarted worker finds it
	if all := must[[]driver.Instance](t)(x.d.Recover(t.Context())); len(all) != 1 || all[0].State != driver.Running {
		t.Errorf("found %+v", all)
	}
	x.seenAs("a", string(was.Status))
	x.capture("a", 2)
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Frozen {
		t.Errorf("captured, it is %s", i.State)
	}
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	img := x.suspend("a", 3)
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); (len(left) == 1) != remove {
		t.Errorf("while it sleeps there is %q", left)
	}
	if i := x.restore("a", 4, img, spec); i.State != driver.Running {
		t.Errorf("restored, it is %+v", i)
	}
	now := look(t, x.e, "quiet").State
	if now.Status != was.Status || now.ExitCode != was.ExitCode || ended && now.ExitCode != 7 {
		t.Errorf("it was %s (%d), and comes back %s (%d)", was.Status, was.ExitCode, now.Status, now.ExitCode)
	}
	start(t, x.e, "quiet")
	if err := x.d.engine.awaitStopped(t.Context(), "quiet"); err != nil {
		t.Fatal(err)
	}
	ran := "ran\n"
	if ended {
		ran += ran
	}
	for _, file := range []string{"/ran", "/data/ran"} {
		if got := contentOf(t, x.e, "quiet", file); got != ran {
			t.Errorf("then started, %s has %q, want %q", file, got, ran)
		}
	}
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Exited || i.Exit.Code != 7 {
		t.Errorf("someone started it, and it ended: %+v", i)
	}
}

// The engine doesn't start a container again that had ended, also with a restart policy: the
// program that runs once in its place is no reason to.
func TestQuietContainerThatIsRestarted(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	for _, policy := range []container.RestartPolicyMode{"always", "unless-stopped", "on-failure"} {
		t.Run(string(policy), func(t *testing.T) {
			x := newTester(t)
			quietContainer(t, x.e, "quiet", true)
			p := container.RestartPolicy{Name: policy}
			must[client.ContainerUpdateResult](t)(x.e.Client.ContainerUpdate(t.Context(), "quiet", client.ContainerUpdateOptions{RestartPolicy: &p}))
			spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "quiet", Remove: true})
			x.start("a", spec)
			x.restore("a", 3, x.suspend("a", 2), spec)
			s := look(t, x.e, "quiet")
			if s.State.Status != container.StateExited || s.State.ExitCode != 7 || s.RestartCount != 0 || s.HostConfig.RestartPolicy.Name != policy {
				t.Errorf("it is %s (%d), restarted %d times, restart %q", s.State.Status, s.State.ExitCode, s.RestartCount, s.HostConfig.RestartPolicy.Name)
			}
			if got := contentOf(t, x.e, "quiet", "/data/ran"); got != "ran\n" {
				t.Errorf("it ran: %q", got)
			}
		})
	}
}

// What such a container does when it is started while it is being suspended is not lost.
func TestQuietContainerIsStarted(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "quiet", nil)
	must[client.ContainerStopResult](t)(x.e.Client.ContainerStop(t.Context(), "quiet", client.ContainerStopOptions{Timeout: new(int)}))
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "quiet", Remove: true})
	x.start("a", spec)
	x.capture("a", 2)
	start(t, x.e, "quiet")
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err == nil || !strings.Contains(err.Error(), "was started by someone else") {
		t.Errorf("over a container that was started: %v", err)
	}
	if s := look(t, x.e, "quiet"); !s.State.Running {
		t.Errorf("it is %+v", s.State)
	}
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 3)); err != nil {
		t.Fatal(err)
	}
	img := x.suspend("a", 4) // as one that runs
	x.restore("a", 5, img, spec)
	if s := look(t, x.e, "quiet"); !s.State.Running {
		t.Errorf("it ran, and comes back as %+v", s.State)
	}
}

// What a container of our own has when its command ends is kept until the session is removed,
// and is there when it is started again.
func TestEndedContainerIsKept(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := dockerspec.With(schemas.Spec{Command: []string{"sh", "-c", "echo ran >>/ran; echo ran >>/data/ran; while ! [ -e /end ]; do sleep 0.01; done; rm /end; exit 7"}}, dockerspec.Options{Volumes: []string{"mine:/data", "/anonymous"}})
	ended := func(epoch uint64) {
		t.Helper()
		id := must[note](t)(x.d.notes.read("a")).Container
		x.sh("a", "touch /end")
		if err := x.d.engine.awaitStopped(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Exited || i.Exit.Code != 7 {
			t.Errorf("it ended as %+v", i)
		}
		if err := x.d.Stop(t.Context(), drivertest.Fence("a", epoch)); err != nil {
			t.Fatal(err)
		}
		if _, err := x.d.Inspect(t.Context(), "a"); !errors.Is(err, driver.ErrNotHere) {
			t.Errorf("when that was heard: %v", err)
		}
		x.d = open(t, x.e, x.d.notes.dir)
		if all := must[[]driver.Instance](t)(x.d.Recover(t.Context())); len(all) != 0 {
			t.Errorf("found %+v", all)
		}
	}
	again := func(epoch uint64, begin func(context.Context) error) error {
		_, err := x.d.Start(t.Context(), drivertest.Fence("a", epoch), spec, begin)
		return err
	}
	x.start("a", spec)
	img, _ := x.capture("a", 2)
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	ended(3)
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); len(left) != 3 {
		t.Errorf("of a container that ended there is %q", left)
	}
	if err := again(4, func(context.Context) error { return context.Canceled }); err == nil {
		t.Error("it was started again though that was not recorded")
	}
	if err := again(5, drivertest.Begin); err != nil {
		t.Fatal(err)
	}
	if out := x.sh("a", "cat /ran /data/ran"); out != "ran\nran\nran\nran" {
		t.Errorf("started again, it has %q", out)
	}
	ended(6)
	// Going back to a snapshot replaces it; if that is not recorded, it stays.
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("a", 7), spec, img, schemas.BootRollback, func(context.Context) error { return context.Canceled }); err == nil {
		t.Error("it was restored though it was not recorded")
	}
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); len(left) != 3 || !strings.Contains(left[0], "(Exited") {
		t.Errorf("after that there is %q", left)
	}
	x.restore("a", 8, img, spec)
	if out := x.sh("a", "cat /ran /data/ran"); out != "ran\nran\nran\nran" {
		t.Errorf("restored, it has %q", out)
	}
	ended(9)
	x.stop("a")
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); !slices.Equal(left, nil) {
		t.Errorf("removed, there is %q", left)
	}
}
