package docker

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// An engine that doesn't keep layers as directories.
func TestWithoutOverlay(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e := dockertest.New(t, dockertest.Copying()...)
	if said := must[string](t)(open(t, e, t.TempDir()).Storage(t.Context())); !strings.Contains(said, "all of a container's file system goes into each snapshot") {
		t.Errorf("it keeps files in %q", said)
	}
	t.Run("files", func(t *testing.T) { wholeFileSystem(t, e) })
	t.Run("conformance", func(t *testing.T) { wholeConformance(t, e) })
}

// It gives the whole file system.
func wholeFileSystem(t *testing.T, e *dockertest.Engine) {
	x := testerOn(t, e)
	spec := withDocker(dockerspec.Options{Volumes: []string{"vol:/vol"}})
	x.start("a", spec)
	if out := x.sh("a", `set -- /home; `+puzzle+`; cd /; rm /etc/lower; echo 1 >/vol/f; mkdir /home/d/deep; ln -s /etc /home/link`); out != "" {
		t.Fatal(out)
	}
	const look = `cd /home; find . ! -name . -exec stat -c '%n %a %u:%g %F' {} \; | sort; sha256sum f sparse empty; stat -c %h f hard; stat -c %Y d/e/g; readlink soft; cat /vol/f; ls /etc`
	before := x.sh("a", look)
	img, got := x.capture("a", 2)
	if w := textOf(got.Warnings); !strings.Contains(w, "all of the file system is in the snapshot") {
		t.Errorf("the warnings are %v", got.Warnings)
	}
	if slices.ContainsFunc(names(img), func(n string) bool { return n == baseEntry || strings.HasPrefix(n, partUpper) }) {
		t.Error("the image holds what is below the container, too")
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	clean(t, x.e)
	x.restore("a", 3, img, spec)
	if after := x.sh("a", look); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	img = x.suspend("a", 4)
	clean(t, x.e) // the image that was made for it is gone
	// An engine that keeps layers takes it as well.
	y := newTester(t)
	y.restore("a", 5, img, spec)
	if after := y.sh("a", look); after != before {
		t.Errorf("it was\n%s\nand is, elsewhere,\n%s", before, after)
	}
	x.stop("a")
	y.stop("a")
}

func names(img *drivertest.Image) (out []string) {
	for _, e := range img.Entries() {
		out = append(out, e.Name)
	}
	return out
}

// And passes the conformance suite where files are concerned.
func wholeConformance(t *testing.T, e *dockertest.Engine) {
	e.Busybox(t)
	drivertest.Run(t, func(t *testing.T) drivertest.Host {
		data := t.TempDir()
		t.Cleanup(func() { clean(t, e) })
		return drivertest.Host{
			Open:     func(t *testing.T) driver.Driver { return open(t, e, data) },
			Counting: dockerspec.With(schemas.Spec{Command: []string{"sh", "-c", counting}, Network: "none"}, dockerspec.Options{Image: "busybox:test"}),
			Count:    func(t *testing.T, d driver.Driver, uid schemas.UID) int { return count(t, d.(*Driver), uid) },
		}
	}, "capture and restore", "begin fails at restore")
}
