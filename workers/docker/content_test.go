package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// tester is one test's engine and driver on it.
type tester struct {
	t *testing.T
	e *dockertest.Engine
	d *Driver
}

func newTester(t *testing.T) *tester {
	t.Helper()
	return testerOn(t, dockertest.Shared(t))
}

func testerOn(t *testing.T, e *dockertest.Engine) *tester {
	t.Helper()
	e.Busybox(t)
	t.Cleanup(func() { clean(t, e) })
	return &tester{t, e, open(t, e, t.TempDir())}
}

// arm replaces the driver by one that does something when it first reaches a failpoint.
func (x *tester) arm(at failpoint.Name, do func(context.Context) error) {
	x.t.Helper()
	points := failpoint.New()
	if err := points.Arm(at, 1, do); err != nil {
		x.t.Fatal(err)
	}
	x.d = openArmed(x.t, x.e, x.d.notes.dir, points)
}

// start starts a session of busybox and stops it at the end.
func (x *tester) start(name string, spec schemas.Spec) driver.Instance {
	x.t.Helper()
	o := askedOf(x.t, spec)
	if o.Image == "" && o.Container == "" {
		o.Image = "busybox:test"
	}
	if spec.Network == "" && len(o.Networks) == 0 && o.Container == "" {
		spec.Network = "none"
	}
	spec = dockerspec.With(spec, o)
	x.t.Cleanup(func() { x.stop(name) })
	return must[driver.Instance](x.t)(x.d.Start(x.t.Context(), drivertest.Fence(name, 1), spec, drivertest.Begin))
}

func (x *tester) stop(name string) {
	x.t.Helper()
	if err := x.d.Stop(afterwards(x.t), drivertest.Fence(name, 1<<40)); err != nil {
		x.t.Error(err)
	}
	if err := x.d.Release(afterwards(x.t), drivertest.Fence(name, 1<<40)); err != nil {
		x.t.Error(err)
	}
}

func (x *tester) capture(name string, epoch uint64) (*drivertest.Image, driver.Captured) {
	x.t.Helper()
	img := &drivertest.Image{}
	return img, must[driver.Captured](x.t)(x.d.Capture(x.t.Context(), drivertest.Fence(name, epoch), img))
}

// suspend captures a session and stops it.
func (x *tester) suspend(name string, epoch uint64) *drivertest.Image {
	x.t.Helper()
	img, _ := x.capture(name, epoch)
	if err := x.d.Stop(x.t.Context(), drivertest.Fence(name, epoch)); err != nil {
		x.t.Fatal(err)
	}
	return img
}

func (x *tester) restore(name string, epoch uint64, img *drivertest.Image, spec schemas.Spec) driver.Instance {
	x.t.Helper()
	x.t.Cleanup(func() { x.stop(name) })
	return must[driver.Instance](x.t)(x.d.Restore(x.t.Context(), drivertest.Fence(name, epoch), spec, img, schemas.BootResume, drivertest.Begin))
}

func (x *tester) sh(name, script string) string {
	x.t.Helper()
	return inContainer(x.t, x.d, drivertest.Fence(name, 1).UID, "sh", "-c", script)
}

// dirOf is where something mounted in a session's container is on this host.
func (x *tester) dirOf(name, at string) string {
	x.t.Helper()
	n := must[note](x.t)(x.d.notes.read(drivertest.Fence(name, 1).UID))
	got := must[client.ContainerInspectResult](x.t)(x.d.engine.ContainerInspect(x.t.Context(), n.Container, client.ContainerInspectOptions{}))
	if at == "" {
		return must[string](x.t)(x.d.storage.upper(x.t.Context(), &got.Container))
	}
	for _, m := range got.Container.Mounts {
		if m.Destination == at {
			return m.Source
		}
	}
	x.t.Fatalf("nothing is mounted at %s", at)
	return ""
}

// askedOf gives the docker driver's options of a spec.
func askedOf(t *testing.T, s schemas.Spec) dockerspec.Options {
	t.Helper()
	o, _, err := dockerspec.Of(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// changed gives a spec with other options.
func changed(t *testing.T, s schemas.Spec, change func(*dockerspec.Options)) schemas.Spec {
	t.Helper()
	o := askedOf(t, s)
	change(&o)
	return dockerspec.With(s, o)
}

var idle = schemas.Spec{Command: []string{"sleep", "1000000"}}

func withDocker(d dockerspec.Options) schemas.Spec {
	s := dockerspec.With(idle, d)
	return s
}

// puzzle makes one of each kind of file in a directory.
const puzzle = `cd "$1" && mkdir -p d/e && echo content >f && echo x >d/e/g && chmod 4751 f && chown 12:34 d && chmod 1777 d && ln f hard && ln -s nowhere soft &&
mkfifo fifo && echo "" >"a name
of two lines" && truncate -s 50M sparse && echo end >>sparse && touch -d '2001-02-03 04:05:06' d/e d/e/g && chown -h 5:6 soft && : >empty`

// picture describes all files below a directory of this host, with what they hold.
func picture(t *testing.T, dir string) (lines []string) {
	t.Helper()
	inodes := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		what := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = fmt.Sprintf("%d bytes %q in %t", len(data), strings.TrimLeft(string(data), "\x00"), st.Blocks*512 < st.Size/2)
			if first, ok := inodes[st.Ino]; ok {
				what += " = " + first
			}
			inodes[st.Ino] = rel
		case unix.S_IFLNK:
			what, err = os.Readlink(path)
		case unix.S_IFDIR:
			st.Size = 0
		}
		attr := make([]byte, 100)
		if n, err := unix.Lgetxattr(path, "user.mark", attr); err == nil {
			what += " user.mark=" + string(attr[:n])
		}
		if n, err := unix.Lgetxattr(path, "security.capability", attr); err == nil {
			what += fmt.Sprintf(" capability=%x", attr[:n])
		}
		lines = append(lines, fmt.Sprintf("%s %o %d:%d %d %s", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Nano(), what))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func same(t *testing.T, what string, before, after []string) {
	t.Helper()
	if slices.Equal(before, after) {
		return
	}
	for _, l := range before {
		if !slices.Contains(after, l) {
			t.Errorf("%s: gone or changed: %s", what, l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			t.Errorf("%s: new or changed: %s", what, l)
		}
	}
}

// Everything that a container has in its layer and volumes comes back, exactly, on the
// same engine and on another one that knows nothing of it.
func TestAllFilesComeBack(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	spec := withDocker(dockerspec.Options{Volumes: []string{"named:/named", "/anonymous"}, Tmpfs: []string{"/mem"}})
	x.start("a", spec)
	for _, dir := range []string{"/home", "/named", "/anonymous"} {
		if out := x.sh("a", `set -- `+dir+`; `+puzzle); out != "" {
			t.Fatal(out)
		}
	}
	// Of the image's own files one is gone, one changed, and a directory replaced.
	if out := x.sh("a", `rm /etc/lower; echo changed >>/etc/passwd; rm -r /data; mkdir /data; echo x >/data/new; echo gone >/mem/m`); out != "" {
		t.Fatal(out)
	}
	for _, at := range []string{"/named", "/anonymous"} {
		f := filepath.Join(x.dirOf("a", at), "f")
		if err := unix.Setxattr(f, "user.mark", []byte("here"), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setxattr(f, "security.capability", []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(filepath.Join(x.dirOf("a", at), "socket"), unix.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	pictures := func(x *tester) map[string][]string {
		out := map[string][]string{}
		for _, at := range []string{"", "/named", "/anonymous"} {
			out[at] = slices.DeleteFunc(picture(t, x.dirOf("a", at)), func(l string) bool { return strings.HasPrefix(l, "socket ") })
		}
		if root := out[""]; dockertest.Default() != dockertest.Machine { // today's engines make something in it, at each start
			i := slices.IndexFunc(root, func(l string) bool { return strings.HasPrefix(l, ". ") })
			root[i] = strings.Join(strings.Fields(root[i])[:3], " ")
		}
		return out
	}
	before := pictures(x)
	img, got := x.capture("a", 2)
	if w := textOf(got.Warnings); !strings.Contains(w, "sockets are not in the snapshot, as /socket") || !strings.Contains(w, "tmpfs /mem is lost") {
		t.Errorf("the warnings are %v", got.Warnings)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	clean(t, x.e)

	other := testerOn(t, dockertest.New(t))
	forgetBusybox(t, other.e) // it is in the image
	for what, x := range map[string]*tester{"same engine": x, "another": other} {
		x.restore("a", 3, img, spec)
		after := pictures(x)
		for at := range before {
			same(t, what+", "+at, before[at], after[at])
		}
		if out := x.sh("a", `cat /etc/lower 2>/dev/null; ls /data /mem; tail -n 1 /etc/passwd`); out != "/data:\nnew\n\n/mem:\nchanged" {
			t.Errorf("%s: in the container it is %q", what, out)
		}
	}
	other.stop("a")
	if _, err := other.e.Client.ImageInspect(t.Context(), "busybox:test"); !missing(err) {
		t.Errorf("the image that was loaded for the session is still there: %v", err)
	}
}

func forgetBusybox(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	if _, err := e.Client.ImageRemove(t.Context(), "busybox:test", client.ImageRemoveOptions{PruneChildren: true}); err != nil {
		t.Fatal(err)
	}
}

// A volume that was there before the session is never removed; one that it made goes, and
// comes back.
func TestVolumesOfOthers(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	if _, err := x.e.Client.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: "before"}); err != nil {
		t.Fatal(err)
	}
	defer x.e.Client.VolumeRemove(afterwards(t), "before", client.VolumeRemoveOptions{})
	spec := withDocker(dockerspec.Options{Volumes: []string{"before:/b", "made:/m"}})
	x.start("a", spec)
	x.sh("a", "echo 1 >/b/f; echo 1 >/m/f")
	img := x.suspend("a", 2)
	left := must[[]string](t)(x.e.Leftovers(t.Context()))
	if !slices.Equal(left, []string{"volume before"}) {
		t.Errorf("while it sleeps there is %q", left)
	}
	x.restore("a", 3, img, spec)
	x.sh("a", "echo 2 >/b/f; echo 2 >/b/more; echo 2 >/m/f")
	x.suspend("a", 4)
	x.restore("a", 5, img, spec) // the older one
	if out := x.sh("a", "cat /b/f /m/f; ls /b"); out != "1\n1\nf" {
		t.Errorf("after the rollback it is %q", out)
	}
	x.stop("a")
}

// A volume that other containers use keeps what it has, unless that is asked for.
func TestSharedVolume(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	x.start("other", withDocker(dockerspec.Options{Volumes: []string{"shared:/s"}}))
	spec := withDocker(dockerspec.Options{Volumes: []string{"shared:/s"}})
	x.start("a", spec)
	x.sh("a", "echo 1 >/s/f")
	img, got := x.capture("a", 2)
	if w := textOf(got.Warnings); !strings.Contains(w, "volume shared at /s is also used by diapause-default-other") {
		t.Errorf("the warnings are %v", got.Warnings)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	x.sh("other", "echo 2 >/s/f")
	x.restore("a", 3, img, spec)
	if out := x.sh("a", "cat /s/f"); out != "2" {
		t.Errorf("a shared volume has %q", out)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 4)); err != nil {
		t.Fatal(err)
	}
	spec = changed(t, spec, func(o *dockerspec.Options) { o.SharedVolumes = true })
	x.restore("a", 5, img, spec)
	if out := x.sh("other", "cat /s/f"); out != "1" {
		t.Errorf("a shared volume that was to be replaced has %q", out)
	}
}
