package criu

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/rootfs"
)

// countingImage is the configuration of an image whose command counts.
var countingImage = v1.Config{
	Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{counting.Command[2]},
	Env: []string{"PATH=/bin", "A=image", "B=image"}, WorkingDir: "/work",
}

// saveImage saves an image with a shell as "docker save" does, and gives the reference to it.
func saveImage(t *testing.T, file string, config v1.Config, motd string) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v (these tests need busybox-static)", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, string(busybox))
	for _, program := range []string{"sh", "cat", "ls", "sleep", "touch", "id", "stat", "env", "pwd", "grep", "wget"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + program, Linkname: "busybox"}, "")
	}
	// Commands enter the session by this program, which is static only where tests have no cgo.
	if out, err := exec.Command("ldd", os.Args[0]).Output(); err == nil {
		for _, lib := range strings.Fields(string(out)) {
			if b, err := os.ReadFile(lib); err == nil && filepath.IsAbs(lib) {
				add(tar.Header{Typeflag: tar.TypeReg, Name: lib[1:], Mode: 0o755}, string(b))
			}
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, "root:x:0:0::/:/bin/sh\napp:x:1000:1000::/work:/bin/sh\n")
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, "root:x:0:\nstaff:x:50:\n")
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/motd", Mode: 0o644}, motd)
	add(tar.Header{Typeflag: tar.TypeDir, Name: "work", Mode: 0o755, Uid: 1000, Gid: 50}, "")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		img, err = mutate.Config(img, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("test:1")
	if err == nil {
		err = tarball.WriteToFile(file, tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "tar:" + file
}

func rootedSpec(ref string) schemas.Spec {
	return schemas.Spec{Root: "oci:" + ref, Env: []string{"B=given"}}
}

// A session has a container image for its root. It goes on from it, and forks do, although the
// archive has another image by then; and on another host when the archive is gone.
func TestImageRoot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "image.tar")
	spec := rootedSpec(saveImage(t, file, countingImage, "first"))
	d := open(t, t.TempDir())
	s := begin(t, d, "s", spec)
	count(t, d, "s")
	const ask = "cat /etc/motd; echo; id -u; id -g; pwd; echo $A $B; ls / | grep -v lib; stat -c %a /tmp; grep -c localhost /etc/hosts; cat /work/own 2>/dev/null"
	s.sh("echo mine > /work/own")
	want := "first\n0\n0\n/work\nimage given\nbin\ndev\netc\nproc\nrun\nsys\ntmp\nwork\n1777\n2\nmine"
	if got := s.sh(ask); got != want {
		t.Fatalf("inside it is\n%s\nwant\n%s", got, want)
	}
	if got, err := os.ReadFile("/etc/resolv.conf"); err == nil && s.sh("cat /etc/resolv.conf") != strings.TrimSpace(string(got)) {
		t.Errorf("resolv.conf inside is\n%s\nwant\n%s", s.sh("cat /etc/resolv.conf"), got)
	}
	pinned, err := d.Root("s")
	if err != nil || pinned == nil || pinned.Ref != "tar:"+file || !strings.HasPrefix(pinned.Digest, "sha256:") {
		t.Errorf("the driver says the root is %+v, %v", pinned, err)
	}
	saveImage(t, file, countingImage, "second")
	img := s.cycle()
	if got := s.sh(ask); got != want {
		t.Errorf("resumed it is\n%s\nwant\n%s", got, want)
	}
	count(t, d, "s")
	fork := &session{t: t, d: d, uid: "fork", spec: spec}
	fork.stopLater()
	fork.resume(img, schemas.BootFork)
	if got := fork.sh("cat /etc/motd"); got != "first" {
		t.Errorf("the fork has the root %q", got)
	}
	same := begin(t, d, "same", rootedSpec("layout:"+layoutOf(t, img)))
	if again, err := d.Root("same"); err != nil || again == nil || again.Digest != pinned.Digest || same.sh("cat /etc/motd") != "first" {
		t.Errorf("of the layout that the image has, the root is %+v, %v", again, err)
	}
	second := begin(t, d, "second", spec)
	if got := second.sh("cat /etc/motd"); got != "second" {
		t.Errorf("a new session has the root %q", got)
	}
	img = s.suspend()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	there := open(t, t.TempDir())
	moved := &session{t: t, d: there, uid: "s", epoch: s.epoch, spec: spec}
	moved.stopLater()
	for range 2 {
		moved.resume(img, schemas.BootResume)
		if got := moved.sh(ask); got != want {
			t.Errorf("on another host it is\n%s\nwant\n%s", got, want)
		}
		count(t, there, "s")
		img = moved.suspend()
	}
	if again, err := there.Root("s"); err != nil || again == nil || *again != *pinned {
		t.Errorf("there the root is %+v, %v, want %+v", again, err, pinned)
	}
}

// layoutOf gives what an image of a session has of its root, as a directory.
func layoutOf(t *testing.T, img *drivertest.Image) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range img.Entries() {
		if content, ok := img.Content(e.Name); ok && strings.HasPrefix(e.Name, "root/") {
			file := filepath.Join(dir, e.Name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, "root")
}

// rootsOf lists the roots that a driver has unpacked.
func rootsOf(t *testing.T, d *Driver) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(d.options.Data, "roots", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A root goes when the last session that needs it was removed, and not before; one of a trial
// goes with that.
func TestImageRootIsReleased(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	spec := rootedSpec(saveImage(t, filepath.Join(t.TempDir(), "image.tar"), countingImage, "x"))
	one, two := begin(t, d, "one", spec), begin(t, d, "two", spec)
	if got := rootsOf(t, d); len(got) != 1 {
		t.Errorf("two sessions have the roots %v", got)
	}
	if err := d.Release(limited(t), one.next()); err == nil {
		t.Error("the root of a running session was released")
	}
	img := one.suspend()
	two.suspend()
	kept, err := d.Kept()
	if err != nil || len(kept) != 2 || kept[0].UID != "one" || kept[0].Name.Session != "one" {
		t.Errorf("kept is %+v, %v", kept, err)
	}
	if err := d.Release(limited(t), two.next()); err != nil {
		t.Fatal(err)
	}
	if got := rootsOf(t, d); len(got) != 1 {
		t.Errorf("a suspended session has the roots %v", got)
	}
	if err := d.Release(limited(t), one.next()); err != nil {
		t.Fatal(err)
	}
	if got := rootsOf(t, d); len(got) != 0 {
		t.Errorf("released, there are the roots %v", got)
	}
	only := errors.New("only tried")
	f := drivertest.Fence("trial-x", 1)
	_, err = d.Restore(limited(t), f, spec, img, schemas.BootTrial, func(context.Context) error { return only })
	if !errors.Is(err, only) {
		t.Fatalf("a trial: %v", err)
	}
	if err := d.Stop(limited(t), f); err != nil {
		t.Fatal(err)
	}
	if got := rootsOf(t, d); len(got) != 0 {
		t.Errorf("after a trial there are the roots %v", got)
	}
	one.resume(img, schemas.BootResume)
	count(t, d, "one")
}

// What can't be started from an image is refused, and leaves nothing.
func TestImageRootRefused(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	dir := t.TempDir()
	bare := countingImage
	bare.Entrypoint, bare.Cmd = nil, nil
	missing := countingImage
	missing.User = "app:nogroup"
	for what, c := range map[string]struct {
		spec       schemas.Spec
		code, says string
	}{
		"no command":   {rootedSpec(saveImage(t, filepath.Join(dir, "bare.tar"), bare, "x")), rootfs.CodeCommand, "has no command to run; give one"},
		"no such file": {rootedSpec("tar:" + dir + "/none"), rootfs.CodeNotFound, "there is no image"},
		"no reference": {rootedSpec("tar:relative"), rootfs.CodeReference, "must be absolute"},
		"no group":     {rootedSpec(saveImage(t, filepath.Join(dir, "group.tar"), missing, "x")), "", `there is no group "nogroup"`},
		"no program":   {with(rootedSpec(saveImage(t, filepath.Join(dir, "good.tar"), countingImage, "x")), "/no/such"), "", "not found"},
	} {
		_, err := d.Start(limited(t), drivertest.Fence("s", 1), c.spec, drivertest.Begin)
		if driver.KindOf(err) != driver.Refused || driver.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v with code %q, want %q with %q", what, err, driver.CodeOf(err), c.says, c.code)
		}
		if got := rootsOf(t, d); len(got) > 0 {
			t.Errorf("%s leaves %v", what, got)
		}
		if _, err := os.Stat(d.dir.session("s")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s leaves the session's directory: %v", what, err)
		}
	}
	inside := counting
	inside.Root = filepath.Join(d.options.Data, "roots")
	if err := os.MkdirAll(inside.Root, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(limited(t), drivertest.Fence("s", 2), inside, drivertest.Begin); driver.KindOf(err) != driver.Refused {
		t.Errorf("a root in the data directory: %v", err)
	}
}

func with(s schemas.Spec, command ...string) schemas.Spec {
	s.Command = command
	return s
}

// With a private network names are resolved by the session's own forwarder, which the image
// knows nothing of.
func TestImageRootWithPrivateNetwork(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	spec := rootedSpec(saveImage(t, filepath.Join(t.TempDir(), "image.tar"), countingImage, "x"))
	spec.Network = "private"
	s := begin(t, d, "s", spec)
	for range 2 {
		if got := s.sh("cat /etc/resolv.conf"); !strings.Contains(got, network.Service.String()) {
			t.Errorf("resolv.conf is %q", got)
		}
		s.cycle()
	}
}

// The image says as whom its command runs, by names that only its own files explain.
func TestImageRootUser(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	config := countingImage
	config.User = "app:staff"
	s := begin(t, open(t, t.TempDir()), "s", rootedSpec(saveImage(t, filepath.Join(t.TempDir(), "image.tar"), config, "x")))
	if got, want := s.sh("id -u; id -g; echo mine > own; stat -c %u:%g /work/own"), "1000\n50\n1000:50"; got != want {
		t.Errorf("inside it is %q, want %q", got, want)
	}
}

// What is restored in rehearsal is what the session is, on this root, too.
func TestImageRootRehearsed(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", rootedSpec(saveImage(t, filepath.Join(t.TempDir(), "image.tar"), countingImage, "x")))
	s.sh("echo mine > /work/own")
	for range 2 {
		img := &drivertest.Image{}
		c, err := d.CaptureRehearsed(limited(t), s.next(), img, schemas.RehearseAlways)
		if err != nil || !c.Rehearsed {
			t.Fatalf("rehearsed %v, %v", c.Rehearsed, err)
		}
		if err := d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		s.resume(img, schemas.BootResume)
		count(t, d, "s")
	}
}

// stampedImage counts what it is made to read.
type stampedImage struct {
	drivertest.Image
	knows map[string]bool
	read  int
}

func (m *stampedImage) AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error {
	if m.knows[stamp] {
		return nil
	}
	if strings.HasPrefix(e.Name, rootBlobs) {
		m.read++
		m.knows[stamp] = true
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return m.Add(e, r)
}

// Only the first image of a session reads what its root was made of.
func TestImageRootIsReadOnce(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", rootedSpec(saveImage(t, filepath.Join(t.TempDir(), "image.tar"), countingImage, "x")))
	knows := map[string]bool{}
	for i, want := range []int{3, 0} { // the manifest, the config, the layer
		img := &stampedImage{knows: knows}
		f := s.next()
		if _, err := d.Capture(limited(t), f, img); err != nil {
			t.Fatal(err)
		}
		if img.read != want {
			t.Errorf("capture %d read %d blobs, want %d", i+1, img.read, want)
		}
		if err := d.Thaw(limited(t), f); err != nil {
			t.Fatal(err)
		}
	}
}
