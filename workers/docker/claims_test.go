package docker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// another makes a driver of another Diapause on the same engine, and one to stop what it has.
func (x *tester) another(instance string) *tester {
	x.t.Helper()
	d := must[*Driver](x.t)(New(Options{Engine: x.e.URL, Data: filepath.Join(x.t.TempDir(), "notes"), Instance: instance, Log: slog.New(slog.NewTextHandler(x.t.Output(), nil))}))
	x.t.Cleanup(func() { d.Close() })
	return &tester{x.t, x.e, d}
}

// refuses makes sure that a container can't be made a session, and that it is said whose it is.
func (x *tester) refuses(container string, says ...string) {
	x.t.Helper()
	_, err := x.d.Start(x.t.Context(), drivertest.Fence("b", 1), dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: container}), func(context.Context) error {
		x.t.Errorf("%s was recorded to be a session", container)
		return context.Canceled
	})
	if driver.KindOf(err) != driver.Refused {
		x.t.Fatalf("container %s: %v", container, err)
	}
	for _, w := range says {
		if !strings.Contains(err.Error(), w) {
			x.t.Errorf("container %s: %v; want %q", container, err, w)
		}
	}
}

// asks makes sure which labelled container is offered first, the newest being looked at first.
func (x *tester) asks(want string) {
	x.t.Helper()
	ctx, stop := context.WithTimeout(x.t.Context(), drivertest.Limit)
	defer stop()
	if got := <-x.d.Offers(ctx); got.Name != want {
		x.t.Errorf("%q asks to be a session; want %q", got.Name, want)
	}
}

// A container that is a session of one Diapause is none of another on the same engine, in
// any of its states, until it is given up.
func TestAnothersContainer(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "free", map[string]string{labelAdopt: "free"})
	foreignContainer(t, x.e, "theirs", map[string]string{labelAdopt: "a"})
	other := x.another("second")
	other.asks("theirs")
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	x.start("a", spec)
	other.asks("free")
	other.refuses("theirs", "is session "+drivertest.Fence("a", 1).Name.String()+" of another Diapause", "host test", x.d.notes.dir)

	img := x.suspend("a", 2)
	other.refuses("theirs", x.d.notes.dir)
	if err := os.RemoveAll(must[string](t)(x.d.claims.directory(t.Context()))); err != nil { // as on a host that it comes to
		t.Fatal(err)
	}
	x.restore("a", 3, img, spec) // in another container
	other.refuses("theirs", x.d.notes.dir)
	other.asks("free")
	if err := x.d.Close(); err != nil { // it is its session all the same
		t.Fatal(err)
	}
	other.asks("free")
	other.refuses("theirs", x.d.notes.dir)
	x.d = open(t, x.e, x.d.notes.dir)

	x.suspend("a", 4)
	if err := x.d.Release(t.Context(), drivertest.Fence("a", 5)); err != nil {
		t.Fatal(err)
	}
	must[client.ContainerStartResult](t)(x.e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{}))
	other.asks("theirs")
	other.start("a", spec)
	x.refuses("theirs", "host second", other.d.notes.dir)
}

// What a Diapause that is gone had is anybody's, and one that was there before it could tell
// others does so when it begins.
func TestAnotherIsGone(t *testing.T) {
	t.Parallel()
	x := testerOn(t, dockertest.Shared(t))
	foreignContainer(t, x.e, "theirs", nil)
	other := x.another("second")
	spec := dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: "theirs"})
	must[driver.Instance](t)(other.d.Start(t.Context(), drivertest.Fence("a", 1), spec, drivertest.Begin))
	dir := must[string](t)(x.d.claims.directory(t.Context()))
	if err := os.RemoveAll(dir); err != nil { // as an earlier version left it
		t.Fatal(err)
	}
	must[[]driver.Instance](t)(other.d.Recover(t.Context()))
	x.refuses("theirs", other.d.notes.dir)

	damaged := filepath.Join(other.d.notes.dir, "z.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.refuses("theirs", "check whether container theirs is a session", damaged, other.d.notes.dir)
	if err := os.RemoveAll(other.d.notes.dir); err != nil {
		t.Fatal(err)
	}
	x.start("a", spec)
	if all := must[map[string]claimant](t)(claimants(dir)); len(all) != 1 {
		t.Errorf("the engine is used by %+v", all)
	}
}

// Of several that want a container at the same moment, one has it.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	foreignContainer(t, x.e, "theirs", nil)
	theirs := look(t, x.e, "theirs")
	all := []*Driver{x.d}
	for range 7 {
		all = append(all, x.another("second").d)
	}
	n := note{UID: "a", Name: drivertest.Fence("a", 1).Name, Epoch: 1, Phase: making, Container: theirs.ID, Adopted: true}
	for range 10 {
		var wg sync.WaitGroup
		errs := make([]error, len(all))
		for i, d := range all {
			wg.Go(func() { errs[i] = d.claims.claim(t.Context(), &theirs, n) })
		}
		wg.Wait()
		took := 0
		for i, err := range errs {
			if err == nil {
				took++
			} else if driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), "is session") {
				t.Errorf("refused with %v", err)
			}
			if err := all[i].notes.write(note{UID: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if took != 1 {
			t.Fatalf("%d of %d have the container", took, len(all))
		}
	}
}

// Nothing is noted of a deleted session, and nothing of a Diapause that has no session any more.
func TestNothingIsNotedAfterTheLast(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	y := x.another("other")
	dir := filepath.Join(must[client.SystemInfoResult](t)(x.e.Client.Info(t.Context(), client.InfoOptions{})).Info.DockerRootDir, claimsDir)
	entries := func(of *tester) int {
		t.Helper()
		all, err := of.d.notes.all()
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	removes := func(of *tester, name string) {
		t.Helper()
		of.stop(name)
		if err := of.d.Forget(t.Context(), drivertest.Fence(name, 1<<40)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		foreignContainer(t, x.e, name, nil)
	}
	spec := func(name string) schemas.Spec {
		return dockerspec.With(schemas.Spec{}, dockerspec.Options{Container: name})
	}
	x.start("one", spec("one"))
	x.start("two", spec("two"))
	y.start("three", spec("three"))
	removes(x, "one")
	if n := entries(x); n != 1 {
		t.Errorf("after the first of two was deleted, there are %d notes", n)
	}
	x.refuses("three", "of another Diapause")
	removes(x, "b") // a session that was refused is deleted
	removes(x, "two")
	if n, err := claimants(dir); entries(x) != 0 || err != nil || len(n) != 1 {
		t.Errorf("after its last session one has %d notes, and %+v are announced, %v", entries(x), n, err)
	}
	removes(y, "three")
	if there, err := exists(dir); there || err != nil {
		t.Errorf("after the last session of all, %s is there: %v", dir, err)
	}
	x.start("one", spec("one")) // all of it is made again
	y.refuses("one", "of another Diapause")
}
