package docker

import (
	"context"
	"encoding/json"
	"errors"
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

// foreignContainer starts a container that the driver knows nothing of.
func foreignContainer(t *testing.T, e *dockertest.Engine, name string, labels map[string]string) string {
	t.Helper()
	got, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sleep", "1000000"}, Labels: labels},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{"data-of-" + name + ":/data"}, RestartPolicy: container.RestartPolicy{Name: "unless-stopped"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := afterwards(t)
		if _, err := e.Client.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true}); err != nil && !missing(err) {
			t.Error(err)
		}
		if _, err := e.Client.VolumeRemove(ctx, "data-of-"+name, client.VolumeRemoveOptions{}); err != nil && !missing(err) {
			t.Error(err)
		}
	})
	if _, err := e.Client.ContainerStart(t.Context(), got.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return got.ID
}

func look(t *testing.T, e *dockertest.Engine, name string) container.InspectResponse {
	t.Helper()
	return must[client.ContainerInspectResult](t)(e.Client.ContainerInspect(t.Context(), name, client.ContainerInspectOptions{})).Container
}

// A container that something else started is held while its session is suspended, made again
// when it goes on, and let go at the end.
func TestAdopted(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	id := foreignContainer(t, x.e, "theirs", map[string]string{"k": "v"})
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	refused := func(context.Context) error { return context.Canceled }
	if _, err := x.d.Start(t.Context(), drivertest.Fence("a", 1), spec, refused); err == nil {
		t.Error("it was adopted though it was not recorded")
	}
	if s := look(t, x.e, "theirs"); !s.State.Running || s.ID != id {
		t.Errorf("a container that was not adopted is %+v", s.State)
	}
	x.start("a", spec)
	if _, err := x.d.Start(t.Context(), drivertest.Fence("b", 1), spec, drivertest.Begin); driver.KindOf(err) != driver.Refused {
		t.Errorf("adopted twice: %v", err)
	}
	x.sh("a", "echo 1 >/data/f; echo 1 >/f")
	before := settings(t, x.inspect("a"))
	img := x.suspend("a", 2)
	s := look(t, x.e, "theirs")
	if s.State.Running || s.HostConfig.RestartPolicy.Name != "no" || s.ID != id {
		t.Errorf("the held container is %+v, restart %q", s.State, s.HostConfig.RestartPolicy.Name)
	}
	x.d = open(t, x.e, x.d.notes.dir) // a restarted worker leaves it alone
	if all := must[[]driver.Instance](t)(x.d.Recover(t.Context())); len(all) != 0 {
		t.Errorf("found %+v", all)
	}
	x.restore("a", 3, img, spec)
	s = look(t, x.e, "theirs")
	if !s.State.Running || s.ID == id {
		t.Errorf("the container is %+v", s.State)
	}
	same(t, "configuration", before, settings(t, &s))
	if out := x.sh("a", "cat /f /data/f"); out != "1\n1" {
		t.Errorf("in the container it is %q", out)
	}
	img = x.suspend("a", 4) // a second time, and then it is over
	x.restore("a", 5, img, spec)
	x.suspend("a", 6)
	if err := x.d.Release(t.Context(), drivertest.Fence("a", 7)); err != nil {
		t.Fatal(err)
	}
	s = look(t, x.e, "theirs")
	if s.State.Running || s.HostConfig.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("the container that was let go is %+v, restart %q", s.State, s.HostConfig.RestartPolicy.Name)
	}
	if _, err := x.d.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(t, x.e, "theirs") // still there
	must[client.VolumeInspectResult](t)(x.e.Client.VolumeInspect(t.Context(), "data-of-theirs", client.VolumeInspectOptions{}))
}

// A held container that someone starts is not thrown away.
func TestHeldIsStarted(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	x.start("a", spec)
	img := x.suspend("a", 2)
	if _, err := x.e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, drivertest.Begin); driver.KindOf(err) != driver.Taken || !strings.Contains(err.Error(), "was started by someone else") {
		t.Errorf("over a container that runs: %v", err)
	}
	before := look(t, x.e, "theirs")
	if !before.State.Running {
		t.Errorf("it is %+v", before.State)
	}
	// The session goes on with it, once that is recorded.
	if _, err := x.d.Start(t.Context(), drivertest.Fence("a", 3), spec, func(context.Context) error { return context.Canceled }); err == nil {
		t.Error("it went on though that was not recorded")
	}
	if _, err := x.d.Inspect(t.Context(), "a"); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("what went on without a record gives %v", err)
	}
	must[driver.Instance](t)(x.d.Start(t.Context(), drivertest.Fence("a", 3), spec, drivertest.Begin))
	if s := look(t, x.e, "theirs"); s.ID != before.ID || s.State.StartedAt != before.State.StartedAt || s.HostConfig.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("it goes on as %+v, restart %q", s.State, s.HostConfig.RestartPolicy.Name)
	}
	img = x.suspend("a", 4)
	if _, err := x.e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	must[client.ContainerStopResult](t)(x.e.Client.ContainerStop(t.Context(), "theirs", client.ContainerStopOptions{Timeout: new(int)}))
	// A resume that isn't recorded leaves the held one as it was.
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("a", 5), spec, img, schemas.BootResume, func(context.Context) error { return context.Canceled }); err == nil {
		t.Error("it was restored though it was not recorded")
	}
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); len(left) != 2 || !strings.HasPrefix(left[0], "container /theirs (Exited") {
		t.Errorf("there is %q", left)
	}
	x.restore("a", 6, img, spec)
}

// A container that others start before the end of its session is cleared up runs on, and is offered.
func TestEndedIsStarted(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	x.start("a", spec)
	ends := func() {
		t.Helper()
		must[client.ContainerStopResult](t)(x.e.Client.ContainerStop(t.Context(), "theirs", client.ContainerStopOptions{Timeout: new(int)}))
	}
	ends()
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Exited {
		t.Fatalf("it is %+v", i)
	}
	must[client.ContainerStartResult](t)(x.e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{}))
	before := look(t, x.e, "theirs")
	if err := x.d.Ended(t.Context(), drivertest.Fence("a", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.d.Inspect(t.Context(), "a"); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("what was cleared up gives %v", err)
	}
	if got := <-x.d.Offers(t.Context()); got.Run.Existing != schemas.ExistingOwn || got.Run.Of != "a" || got.Name != "theirs" {
		t.Errorf("it asks for %+v", got)
	}
	must[driver.Instance](t)(x.d.Start(t.Context(), drivertest.Fence("a", 2), spec, drivertest.Begin))
	if s := look(t, x.e, "theirs"); s.State.StartedAt != before.State.StartedAt || s.HostConfig.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("it goes on as %+v, restart %q", s.State, s.HostConfig.RestartPolicy.Name)
	}
	// What is not started again is kept as it ended, and one that is to be killed is.
	ends()
	if err := x.d.Ended(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	if s := look(t, x.e, "theirs"); s.State.Running || s.HostConfig.RestartPolicy.Name != "no" {
		t.Errorf("one that ended is %+v, restart %q", s.State, s.HostConfig.RestartPolicy.Name)
	}
	must[driver.Instance](t)(x.d.Start(t.Context(), drivertest.Fence("a", 3), spec, drivertest.Begin))
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 4)); err != nil {
		t.Fatal(err)
	}
	if s := look(t, x.e, "theirs"); s.State.Running {
		t.Errorf("one that was stopped is %+v", s.State)
	}
}

// Another container takes the place of a held one when that is removed, not before.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	x.start("a", dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"}))
	x.suspend("a", 2)
	next := foreignContainer(t, x.e, "next", nil)
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: next})
	if _, err := x.d.Start(t.Context(), drivertest.Fence("a", 3), spec, drivertest.Begin); driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), "session a has container theirs") {
		t.Errorf("beside its own: %v", err)
	}
	must[client.ContainerRemoveResult](t)(x.e.Client.ContainerRemove(t.Context(), "theirs", client.ContainerRemoveOptions{}))
	must[driver.Instance](t)(x.d.Start(t.Context(), drivertest.Fence("a", 4), spec, drivertest.Begin))
	if c := x.inspect("a"); c.ID != next || !c.State.Running {
		t.Errorf("it goes on as container %s, %+v", c.Name, c.State)
	}
	x.sh("a", "echo 1 >/f")
	img := x.suspend("a", 5)
	x.restore("a", 6, img, spec)
	if out := x.sh("a", "cat /f"); out != "1" {
		t.Errorf("in the container it is %q", out)
	}

	x.start("made", withDocker(dockerspec.Options{Image: x.e.Busybox(t)})) // by Diapause: what it has is its own
	must[client.ContainerKillResult](t)(x.e.Client.ContainerKill(t.Context(), x.inspect("made").ID, client.ContainerKillOptions{}))
	if err := x.d.Stop(t.Context(), drivertest.Fence("made", 2)); err != nil { // it is kept
		t.Fatal(err)
	}
	if _, err := x.d.Start(t.Context(), drivertest.Fence("made", 3), dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "next"}), drivertest.Begin); driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), "can't replace what Diapause made") {
		t.Errorf("in the place of one that Diapause made: %v", err)
	}
	x.stop("made")
}

// With --remove nothing stays but the volume that was there before.
func TestAdoptedAndRemoved(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs", Remove: true})
	x.start("a", spec)
	x.sh("a", "echo 1 >/data/f; echo 1 >/f")
	img := x.suspend("a", 2)
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); !slices.Equal(left, []string{"volume data-of-theirs"}) {
		t.Errorf("while it sleeps there is %q", left)
	}
	x.restore("a", 3, img, spec)
	if out := x.sh("a", "cat /f /data/f"); out != "1\n1" {
		t.Errorf("in the container it is %q", out)
	}
}

// A container that someone had paused is captured, stays paused, and comes back so.
func TestPausedByOthers(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	x.start("a", spec)
	must[client.ContainerPauseResult](t)(x.e.Client.ContainerPause(t.Context(), "theirs", client.ContainerPauseOptions{}))
	x.seenAs("a", "paused")
	x.capture("a", 2)
	x.seenAs("a", "paused")
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Frozen {
		t.Errorf("captured, it is %s", i.State)
	}
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 3)); err != nil {
		t.Fatal(err)
	}
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Running || !look(t, x.e, "theirs").State.Paused {
		t.Errorf("after a thaw it is %s, and not as it was left", i.State)
	}
	img := x.suspend("a", 4)
	x.restore("a", 5, img, spec)
	if !look(t, x.e, "theirs").State.Paused {
		t.Error("it was paused, and came back running")
	}
}

// Containers ask for it by a label, when they run already and when they begin to.
func TestOffers(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	labels := map[string]string{labelAdopt: "acme/first", labelClass: "terminal", labelRemove: "true"}
	foreignContainer(t, x.e, "first", labels)
	ctx, stop := context.WithTimeout(t.Context(), drivertest.Limit)
	defer stop()
	asking := x.d.Offers(ctx)
	next := func(name string, why schemas.Existing) driver.Offer {
		t.Helper()
		for o := range asking { // the same may be offered again
			if o.Name == name && o.Run.Existing == why {
				return o
			}
		}
		t.Fatalf("container %s isn't offered as %q", name, why)
		return driver.Offer{}
	}
	got := next("first", schemas.ExistingAsks)
	var spec schemas.Spec
	if err := json.Unmarshal(got.Run.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	if got.Name != "first" || got.Run.Program != "first" || got.Session != "acme/first" || got.Run.Class != "terminal" || got.Run.Driver != Name || !askedOf(t, spec).Remove {
		t.Errorf("it asks for %+v, %+v", got, spec)
	}
	x.start("a", spec)
	foreignContainer(t, x.e, "second", map[string]string{labelAdopt: "two"})
	if got = next("second", schemas.ExistingAsks); got.Session != "two" {
		t.Errorf("the second asks for %+v", got)
	}
	x.suspend("a", 2)
	if _, err := x.e.Client.ContainerStart(t.Context(), "first", client.ContainerStartOptions{}); err == nil {
		t.Fatal("a container that is removed when it is suspended is there")
	}
	spec = dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "second"})
	x.start("two", spec)
	x.suspend("two", 2)
	if _, err := x.e.Client.ContainerStart(t.Context(), "second", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	if got = next("second", schemas.ExistingOwn); got.Session != "two" || got.Run.Of != "two" {
		t.Errorf("a held one that was started asks for %+v", got)
	}
	// One that was started before it was noted to be held is offered all the same.
	must[driver.Instance](t)(x.d.Start(t.Context(), drivertest.Fence("two", 3), spec, drivertest.Begin))
	x.capture("two", 4)
	must[client.ContainerStopResult](t)(x.e.Client.ContainerStop(t.Context(), "second", client.ContainerStopOptions{Timeout: new(int)}))
	must[client.ContainerStartResult](t)(x.e.Client.ContainerStart(t.Context(), "second", client.ContainerStartOptions{}))
	if err := x.d.Ended(t.Context(), drivertest.Fence("two", 4)); err != nil {
		t.Fatal(err)
	}
	next("second", schemas.ExistingOwn)
}
