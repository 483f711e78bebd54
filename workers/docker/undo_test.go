package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/backup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// setBack is a session that has ended, and has a snapshot of before.
type setBack struct {
	*tester
	spec  schemas.Spec
	img   *drivertest.Image
	bind  string
	dirs  []string
	had   [][]string // in each of them
	there []string   // on the engine
}

func newSetBack(t *testing.T) *setBack {
	x := &setBack{tester: newTester(t), bind: filepath.Join(t.TempDir(), "bind")}
	port := freePort(t)
	x.spec = dockerspec.With(schemas.Spec{Command: []string{"sh", "-c", "while ! [ -e /end ]; do sleep 0.01; done; rm /end; exit 7"}}, dockerspec.Options{
		Name: "back", Binds: true, Volumes: []string{"mine:/mine", "theirs:/theirs", "mine:/again", x.bind + ":/bind"}, Publish: []string{fmt.Sprintf("127.0.0.1:%d:80", port)}})
	x.start("other", withDocker(dockerspec.Options{Volumes: []string{"theirs:/theirs"}}))
	x.spec = changed(t, x.spec, func(o *dockerspec.Options) { o.SharedVolumes = true })
	x.start("a", x.spec)
	x.sh("a", "for d in /mine /theirs /bind; do echo then >$d/f; mkdir $d/dir; echo then >$d/dir/g; done; chmod 751 /mine")
	x.img, _ = x.capture("a", 2)
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/mine", "/theirs"} {
		x.dirs = append(x.dirs, x.dirOf("a", at))
		x.sh("a", "set -- "+at+"; rm -r "+at+"/*; "+puzzle+"; echo now >f; chmod 1770 .; chown 3:4 .")
		if err := unix.Setxattr(x.dirOf("a", at), "user.mark", []byte("now"), 0); err != nil {
			t.Fatal(err)
		}
	}
	x.dirs = append(x.dirs, x.bind)
	x.sh("a", "rm -r /bind/*; chmod 711 /bind")
	id := must[note](t)(x.d.notes.read("a")).Container
	x.sh("a", "touch /end")
	if err := x.d.engine.awaitStopped(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 3)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range x.dirs {
		x.had = append(x.had, picture(t, dir))
	}
	x.there = x.left()
	return x
}

// left is what is on the engine, without how long ago.
func (x *setBack) left() (out []string) {
	x.t.Helper()
	for _, l := range must[[]string](x.t)(x.e.Leftovers(x.t.Context())) {
		out = append(out, ago.ReplaceAllString(l, "$1"))
	}
	slices.Sort(out)
	return out
}

var ago = regexp.MustCompile(`((?:Exited|Up)).*`)

func (x *setBack) back(epoch uint64, source driver.Source, begin func(context.Context) error) error {
	_, err := x.d.Restore(context.Background(), drivertest.Fence("a", epoch), x.spec, source, schemas.BootRollback, begin)
	return err
}

// unchanged makes sure that nothing is other than before the restore.
func (x *setBack) unchanged(what string) {
	x.t.Helper()
	for i, dir := range x.dirs {
		same(x.t, what+": "+dir, x.had[i], picture(x.t, dir))
		if all := must[[]os.DirEntry](x.t)(os.ReadDir(filepath.Dir(dir))); len(all) != 1 {
			x.t.Errorf("%s: beside %s there is %v", what, dir, all)
		}
	}
	if left := x.left(); !slices.Equal(left, x.there) {
		x.t.Errorf("%s: there is %q, and was %q", what, left, x.there)
	}
	if n := must[note](x.t)(x.d.notes.read("a")); n.Phase != held || len(n.Backups) > 0 || n.Old != "" {
		x.t.Errorf("%s: it is noted as %+v", what, n)
	}
}

// Until what is restored has started, all that it replaces is there, or comes back: after each
// failure, and when the driver's process ends at any of these moments.
func TestNothingIsReplacedBeforeItBegins(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	x := newSetBack(t)
	broken := errors.New("broken")
	epoch := uint64(4)
	moments := []failpoint.Name{failpoint.DockerMade, failpoint.DockerAside, failpoint.DockerFilled, failpoint.DockerSwapped, failpoint.DockerStarts}
	for _, at := range moments {
		x.arm(at, func(context.Context) error { return broken })
		if err := x.back(epoch, x.img, drivertest.Begin); !errors.Is(err, broken) {
			t.Fatalf("%s: %v", at, err)
		}
		x.unchanged("failed at " + string(at))
		epoch++
	}
	for what, source := range map[string]driver.Source{
		"a volume":      &troubled{x.img, x.part("/theirs") + "/dir/g", func() error { return broken }},
		"a bind mount":  &troubled{x.img, x.part("/bind") + "/dir/g", func() error { return broken }},
		"the same once": &troubled{x.img, x.part("/again") + "/f", func() error { return broken }},
	} {
		if err := x.back(epoch, source, drivertest.Begin); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Fatalf("%s: %v", what, err)
		}
		x.unchanged("failed in " + what)
		epoch++
	}
	if err := x.back(epoch, x.img, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	x.unchanged("not recorded")

	l, err := net.Listen("tcp", strings.TrimSuffix(askedOf(t, x.spec).Publish[0], ":80"))
	if err != nil {
		t.Fatal(err)
	}
	x.arm(failpoint.DockerAside, func(context.Context) error { t.Error("a volume was touched though a port is in use"); return nil })
	refused(t, "a port in use", x.back(epoch+1, x.img, drivertest.Begin), "is in use")
	l.Close()
	x.unchanged("a port in use")

	for i, at := range moments {
		x.crash(epoch+2+uint64(i), at)
		if all := must[[]driver.Instance](t)(x.d.Recover(t.Context())); len(all) != 1 || all[0].Name.Session != "other" {
			t.Errorf("found %+v", all)
		}
		x.unchanged("killed at " + string(at))
	}
	// Once it has started there is no way back.
	x.crash(epoch+8, failpoint.DockerReplaces)
	must[[]driver.Instance](t)(x.d.Recover(t.Context()))
	x.replaced()
}

// part is where a mount is in the image.
func (x *setBack) part(at string) string {
	m := must[*description](x.t)(readMeta(x.img))
	for _, p := range m.Mounts {
		if p.At == at {
			return p.Part
		}
	}
	x.t.Fatalf("nothing was mounted at %s", at)
	return ""
}

// crash has the driver's process end at a moment of a restore, and a new one begin.
func (x *setBack) crash(epoch uint64, at failpoint.Name) {
	x.t.Helper()
	over := make(chan struct{})
	x.arm(at, func(context.Context) error { runtime.Goexit(); return nil })
	go func() {
		defer close(over)
		x.t.Errorf("it doesn't come to %s: %v", at, x.back(epoch, x.img, drivertest.Begin))
	}()
	<-over
	x.d = open(x.t, x.e, x.d.notes.dir)
}

// replaced makes sure that all is as in the snapshot, and nothing is left of what was.
func (x *setBack) replaced() {
	x.t.Helper()
	if out := x.sh("a", "cat /mine/f /mine/dir/g /again/f /theirs/f /theirs/dir/g /bind/f; ls /mine /theirs /bind; stat -c %a /mine"); strings.ReplaceAll(out, "\n", " ") !=
		"then then then then then then /bind: dir f  /mine: dir f  /theirs: dir f 751" {
		x.t.Errorf("it has %q", out)
	}
	for _, dir := range x.dirs {
		if all := must[[]os.DirEntry](x.t)(os.ReadDir(filepath.Dir(dir))); len(all) != 1 {
			x.t.Errorf("beside %s there is %v", dir, all)
		}
	}
	left := x.left()
	if slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "Exited") || strings.Contains(s, "diapause-1") }) {
		x.t.Errorf("there is %q", left)
	}
	if n := must[note](x.t)(x.d.notes.read("a")); n.Phase != here || len(n.Backups) > 0 || n.Old != "" {
		x.t.Errorf("it is noted as %+v", n)
	}
}

// Putting back can be cut off after each of its steps, and so can the setting aside.
func TestPutBackIsCutOff(t *testing.T) {
	t.Parallel()
	x := newSetBack(t)
	dir := x.dirs[0]
	planned := must[backup.Dir](t)(backup.Plan(dir, "cut"))
	at := planned.At
	some := func(from, to string) { // of what is in it
		for i, e := range must[[]os.DirEntry](t)(os.ReadDir(from)) {
			if i%2 == 0 {
				if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all := func(from, to string) {
		for _, e := range must[[]os.DirEntry](t)(os.ReadDir(from)) {
			if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	mkdir := func() {
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for what, cut := range map[string]func(d *backup.Dir){
		"before anything":        func(*backup.Dir) {},
		"before the first":       func(*backup.Dir) { mkdir() },
		"some are aside":         func(*backup.Dir) { mkdir(); some(dir, at) },
		"all are, not noted yet": func(*backup.Dir) { mkdir(); all(dir, at) },
		"filled, also with a name that it had": func(d *backup.Dir) {
			mkdir()
			all(dir, at)
			d.Replaced = true
			write(t, filepath.Join(dir, "f"), "then")
			write(t, filepath.Join(dir, "new", "f"), "then")
		},
		"some are back": func(*backup.Dir) { mkdir(); all(dir, at); some(at, dir) },
		"all are back":  func(*backup.Dir) { mkdir() },
		"all are back, in a directory that looks as the restore has it": func(*backup.Dir) {
			if err := errors.Join(os.Chmod(dir, 0o751), os.Chown(dir, 0, 0), unix.Removexattr(dir, "user.mark")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		n := note{UID: "cut", Phase: making, Backups: []backup.Dir{planned}}
		cut(&n.Backups[0])
		if err := x.d.remover.undoBackups(&n); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		x.unchanged(what)
	}
}

// freePort gives a port on which nothing listens now.
func freePort(t *testing.T) int {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// What was put back in part is not taken for the restore's when it is put back again.
func TestPutBackIsTriedAgain(t *testing.T) {
	t.Parallel()
	x := newSetBack(t)
	dir := x.dirs[0]
	n := note{UID: "cut", Phase: making, Backups: []backup.Dir{must[backup.Dir](t)(backup.Plan(dir, "cut"))}}
	at := n.Backups[0].At
	stays := filepath.Join(at, "d", "e") // and so does what it is in
	if err := errors.Join(n.Backups[0].Move(), os.WriteFile(filepath.Join(dir, "f"), []byte("then"), 0o600)); err != nil {
		t.Fatal(err)
	}
	immutable(t, filepath.Dir(stays), 0x10) // FS_IMMUTABLE_FL
	err := x.d.remover.undoBackups(&n)
	immutable(t, filepath.Dir(stays), 0)
	if !errors.Is(err, unix.EPERM) {
		t.Fatalf("put back over a directory that can't be moved: %v", err)
	}
	n = must[note](t)(x.d.notes.read("cut"))
	if len(n.Backups) != 1 {
		t.Fatalf("it is noted as %+v", n)
	}
	if err := x.d.remover.undoBackups(&n); err != nil {
		t.Error(err)
	}
	x.unchanged("put back again")
}

func immutable(t *testing.T, dir string, flags int) {
	t.Helper()
	f := must[*os.File](t)(os.Open(dir))
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// What is left of one restore and can't be removed, or put back as it was, keeps nothing else
// from going on: the next driver finds what there is.
func TestWhatIsLeftResists(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	x := newSetBack(t)
	found := func(want ...schemas.UID) {
		t.Helper()
		var got []schemas.UID
		for _, i := range must[[]driver.Instance](t)(x.d.Recover(t.Context())) {
			got = append(got, i.UID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
	}
	x.crash(4, failpoint.DockerSwapped)
	n := must[note](t)(x.d.notes.read("a"))
	if err := x.d.engine.removeContainer(t.Context(), n.Container); err != nil {
		t.Fatal(err)
	}
	other := foreignContainer(t, x.e, "back", nil) // another has the name by now
	found("other")
	for i, dir := range x.dirs {
		same(t, dir, x.had[i], picture(t, dir))
	}
	if now := must[note](t)(x.d.notes.read("a")); now.Phase != held || now.Container != n.Old || len(now.Backups) > 0 {
		t.Errorf("it is noted as %+v", now)
	}
	refused(t, "its name is another's", x.back(5, x.img, drivertest.Begin), "rename the new container to back")
	if err := x.d.engine.removeContainer(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	x.crash(6, failpoint.DockerReplaces)
	used := filepath.Join(must[note](t)(x.d.notes.read("a")).Backups[0].At, "used")
	if err := errors.Join(os.Mkdir(used, 0o700), unix.Mount("none", used, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	found("a", "other")
	if err := unix.Unmount(used, 0); err != nil {
		t.Fatal(err)
	}
	found("a", "other")
	x.replaced()
}
