package docker

import (
	"io"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// restamped is an image that is told the stamps of the files that are made of it, and a
// sink that notes by which it is asked for them.
type restamped struct {
	drivertest.Image
	stamps map[string]string
	before map[string]string // those of the image before it
}

func (r *restamped) Knows(stamp string) bool {
	for _, s := range r.before {
		if s == stamp {
			return true
		}
	}
	return false
}

func (r *restamped) Restamp(name, stamp string) { r.stamps[name] = stamp }

func (r *restamped) AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error {
	if stamp != "" {
		r.stamps[e.Name] = stamp
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	return r.Add(e, in)
}

// The files of a container that was resumed are known to the next snapshot, in its layer
// and in its volumes, but for those of a volume that others use as well.
func TestResumedFilesAreKnown(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{Volumes: []string{"mine:/mine", "shared:/shared"}, SharedVolumes: true})
	x.start("other", withDocker(dockerspec.Options{Volumes: []string{"shared:/shared"}}))
	x.start("a", spec)
	x.sh("a", "for d in /home /mine /shared; do echo same >$d/same; echo changed >$d/changed; ln $d/same $d/second; done")
	img := &restamped{stamps: map[string]string{}}
	must[driver.Captured](t)(x.d.Capture(t.Context(), drivertest.Fence("a", 2), img))
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	img.stamps = map[string]string{}
	must[driver.Instance](t)(x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, drivertest.Begin))
	x.sh("a", "for d in /home /mine /shared; do echo changeD >$d/changed; done")
	for name := range img.stamps {
		if name != baseEntry && !strings.HasPrefix(name, "upper/") && !strings.HasPrefix(name, "volumes/0/") {
			t.Errorf("%s is taken to be known", name)
		}
	}
	next := &restamped{stamps: map[string]string{}, before: img.stamps}
	must[driver.Captured](t)(x.d.Capture(t.Context(), drivertest.Fence("a", 4), next)) // at once
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 4)); err != nil {
		t.Fatal(err)
	}
	if s := next.stamps[baseEntry]; s == "" || s != img.stamps[baseEntry] { // no registry has it, so all of it is in each image
		t.Errorf("the image below has the stamp %q, and was told as %q", s, img.stamps[baseEntry])
	}
	for _, dir := range []string{"upper/home", "volumes/0"} {
		if s := next.stamps[dir+"/same"]; s == "" || s != img.stamps[dir+"/same"] {
			t.Errorf("%s/same has the stamp %q, and was told as %q", dir, s, img.stamps[dir+"/same"])
		}
		if s := next.stamps[dir+"/changed"]; s == img.stamps[dir+"/changed"] || img.stamps[dir+"/changed"] == "" {
			t.Errorf("%s/changed was told as %q, and has it still: %q", dir, img.stamps[dir+"/changed"], s)
		}
	}
}
