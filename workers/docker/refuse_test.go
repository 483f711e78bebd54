package docker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

type ctx = context.Context

// What can't be run is refused before anything is made, with words that say why.
func TestRefusedSpecs(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	for what, c := range map[string]struct {
		spec schemas.Spec
		says string
	}{
		"no image":          {dockerspec.With(schemas.Spec{}, dockerspec.Options{}), "needs --image"},
		"image not there":   {withDocker(dockerspec.Options{Image: "nowhere.invalid/no/such:1"}), "is not on this engine, and can't be pulled"},
		"no such container": {dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "nope"}), "there is no container nope"},
		"bad port":          {withDocker(dockerspec.Options{Image: "busybox:test", Publish: []string{"80:x"}}), `publish "80:x"`},
		"port zero":         {withDocker(dockerspec.Options{Image: "busybox:test", Publish: []string{"80:0"}}), `publish "80:0"`},
		"bad address":       {withDocker(dockerspec.Options{Image: "busybox:test", Publish: []string{"1.2.3:80:80"}}), `publish "1.2.3:80:80"`},
		"bad volume":        {withDocker(dockerspec.Options{Image: "busybox:test", Volumes: []string{"x"}}), `volume "x"`},
		"bad tmpfs":         {withDocker(dockerspec.Options{Image: "busybox:test", Tmpfs: []string{"x"}}), `tmpfs "x"`},
		"bad restart":       {withDocker(dockerspec.Options{Image: "busybox:test", Restart: "sometimes"}), `restart "sometimes"`},
		"bad retries":       {withDocker(dockerspec.Options{Image: "busybox:test", Restart: "always:3"}), `restart "always:3"`},
		"bad ulimit":        {withDocker(dockerspec.Options{Image: "busybox:test", Ulimits: []string{"x"}}), `ulimit "x"`},
		"bad device":        {withDocker(dockerspec.Options{Image: "busybox:test", Devices: []string{"x"}}), `device "x"`},
		"bad network":       {withDocker(dockerspec.Options{Image: "busybox:test", Networks: []string{"nope"}}), "network nope not found"},
		"seccomp":           {dockerspec.With(schemas.Spec{Seccomp: schemas.Unconfined}, dockerspec.Options{Image: "busybox:test"}), "--seccomp"},
		"tree capabilities": {dockerspec.With(schemas.Spec{CapAdd: []string{"SYSLOG"}}, dockerspec.Options{Image: "busybox:test"}), "options of driver docker"},
		"bad capability":    {withDocker(dockerspec.Options{Image: "busybox:test", CapAdd: []string{"NOPE"}}), "NOPE"},
		"root":              {dockerspec.With(schemas.Spec{Root: "/x"}, dockerspec.Options{Image: "busybox:test"}), "--root"},
		"a directory":       {dockerspec.With(schemas.Spec{Command: []string{"/etc"}, Network: "none"}, dockerspec.Options{Image: "busybox:test"}), "is a directory"},
		"not executable":    {dockerspec.With(schemas.Spec{Command: []string{"/etc/passwd"}, Network: "none"}, dockerspec.Options{Image: "busybox:test"}), "not executable"},
		"not in the path":   {dockerspec.With(schemas.Spec{Command: []string{"nope"}, Network: "none"}, dockerspec.Options{Image: "busybox:test"}), "command not found in image busybox:test: nope"},
	} {
		_, err := x.d.Start(t.Context(), drivertest.Fence("a", 1), c.spec, func(context.Context) error {
			t.Errorf("%s: it was recorded to run", what)
			return nil
		})
		if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s)", what, err, driver.KindOf(err))
		}
		clean(t, x.e)
	}
}

// A name that is in use is refused, and the container that has it is left alone.
func TestNameInUse(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{Name: "taken"})
	x.start("a", spec)
	spec = dockerspec.With(spec, dockerspec.Options{Image: "busybox:test", Name: "taken", Volumes: []string{"vol:/v"}})
	if _, err := x.d.Start(t.Context(), drivertest.Fence("b", 1), spec, drivertest.Begin); driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("a name in use: %v", err)
	}
	if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Running {
		t.Errorf("the one that has it is %s", i.State)
	}
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); len(left) != 1 {
		t.Errorf("there is %q", left)
	}
}

// An engine that is away is said to be, and what is here is what it was when it is back.
func TestEngineAway(t *testing.T) {
	t.Parallel()
	x := testerOn(t, dockertest.New(t))
	spec := withDocker(dockerspec.Options{Volumes: []string{"vol:/v"}, Restart: "always"})
	x.start("a", spec)
	if err := x.e.Stop(); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"Fingerprint": func() error { _, err := x.d.Fingerprint(t.Context()); return err },
		"Inspect":     func() error { _, err := x.d.Inspect(t.Context(), "a"); return err },
		"Capture": func() error {
			_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), &drivertest.Image{})
			return err
		},
		"Stop": func() error { return x.d.Stop(t.Context(), drivertest.Fence("a", 2)) },
		"Start": func() error {
			_, err := x.d.Start(t.Context(), drivertest.Fence("b", 1), spec, drivertest.Begin)
			return err
		},
	}
	for what, call := range calls {
		if err := call(); err == nil || driver.KindOf(err) != driver.Transient || !strings.Contains(err.Error(), "doesn't answer") {
			t.Errorf("%s: %v", what, err)
		}
	}
	all := must[[]driver.Instance](t)(x.d.Recover(t.Context()))
	if len(all) != 1 || all[0].UID != "a" || all[0].State != driver.Running {
		t.Errorf("while the engine is away there is %+v", all)
	}
	over, end := context.WithCancelCause(t.Context())
	end(errors.New("the disk is full"))
	if all, err := x.d.Recover(over); err == nil {
		t.Errorf("asked by what ends, the engine is taken to be away: %+v", all)
	}
	if err := x.e.Run(); err != nil {
		t.Fatal(err)
	}
	img := x.suspend("a", 3)
	x.restore("a", 4, img, spec)
	x.stop("a")
}

// Images that this host can't restore.
func TestRefusedImages(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{})
	x.start("a", spec)
	img := x.suspend("a", 2)
	for what, c := range map[string]struct {
		change func(m *description)
		says   string
	}{
		"a later version":       {func(m *description) { m.Version = 2 }, "version 2"},
		"another architecture":  {func(m *description) { m.Image.Arch = "s390x" }, "for s390x"},
		"an image that is gone": {func(m *description) { m.Image = baseImage{ID: "sha256:" + strings.Repeat("0", 64), Name: m.Image.Name} }, "is not on this engine"},
	} {
		changed := &drivertest.Image{}
		for _, e := range img.Entries() {
			data, _ := img.Content(e.Name)
			if e.Name == metaEntry {
				var m description
				if err := json.Unmarshal(data, &m); err != nil {
					t.Fatal(err)
				}
				c.change(&m)
				var err error
				if data, err = json.Marshal(m); err != nil {
					t.Fatal(err)
				}
				e.Size = -1
			}
			if err := changed.Add(e, strings.NewReader(string(data))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, changed, schemas.BootResume, drivertest.Begin)
		if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		clean(t, x.e)
	}
	other := &drivertest.Image{}
	if err := other.Add(image.Entry{Name: "criu/x", Type: image.TypeDir}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, other, schemas.BootResume, drivertest.Begin); driver.KindOf(err) != driver.Refused {
		t.Errorf("an image of a process tree: %v", err)
	}
}

// A container that is removed under us is over, and says why.
func TestRemovedUnderUs(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	x.start("a", withDocker(dockerspec.Options{}))
	if _, err := x.e.Client.ContainerRemove(t.Context(), x.inspect("a").ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a"))
	if i.State != driver.Exited || i.Exit == nil || !strings.Contains(i.Exit.Reason, "removed by someone else") {
		t.Errorf("it is %+v (%+v)", i, i.Exit)
	}
	if _, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), &drivertest.Image{}); err == nil {
		t.Error("it can be captured")
	}
}

// A session that is to go on elsewhere by itself can't be a container.
func TestGuardIsRefused(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	f := drivertest.Fence("a", 1)
	f.Guard = true
	if _, err := x.d.Start(t.Context(), f, withDocker(dockerspec.Options{Image: "busybox:test"}), drivertest.Begin); driver.KindOf(err) != driver.Refused {
		t.Errorf("with a guard: %v", err)
	}
}

func TestOlderAPI(t *testing.T) {
	t.Parallel()
	for v, older := range map[string]bool{"1.40": true, "1.41": false, "1.9": true, "1.100": false, "2.0": false, "": true} {
		if olderAPI(v, minimumAPI) != older {
			t.Errorf("API %q: older %t", v, !older)
		}
	}
}
