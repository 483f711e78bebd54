package criu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
)

var idling = schemas.Spec{Command: []string{"/bin/sh", "-c", "echo up; while :; do sleep 1; done"}}

// numbers gives the inode numbers of files that were made, renamed and copied up, and of directories.
const numbers = "cd /srv && stat -c '%n %i' made made/file made/renamed /etc/passwd /etc/hostname /srv /etc"

func TestInodeNumbersGoWithTheLayer(t *testing.T) {
	t.Parallel()
	d, other := open(t, t.TempDir()), open(t, t.TempDir())
	s := begin(t, d, "s", idling)
	want := s.sh("mkdir -p /srv/made && cd /srv/made && echo > file && echo > old && mv old renamed && touch /etc/passwd && echo x >> /etc/hostname; " + numbers)
	img := s.suspend()
	for boot, d := range map[schemas.Boot]*Driver{schemas.BootRollback: d, schemas.BootFork: d, schemas.BootTakeover: other} {
		f := &session{t: t, d: d, uid: schemas.UID("s-" + string(boot)), spec: idling}
		f.resume(img, boot)
		f.stopLater()
		if got := f.sh(numbers); got != want {
			t.Errorf("after a %s the numbers are\n%s\nand were\n%s", boot, got, want)
		}
	}
	s.resume(img, schemas.BootResume)
}

// What a session deleted is neither in its image nor in a fork's.
func TestDeletedIsInNoImage(t *testing.T) {
	t.Parallel()
	const half = "secret-that-was-"
	d := open(t, t.TempDir())
	s := begin(t, d, "s", idling)
	has := func(img *drivertest.Image) (found bool) {
		parts := 0
		for _, e := range img.Entries() {
			if strings.HasPrefix(e.Name, layerBlocks) {
				b, _ := img.Content(e.Name)
				parts++
				found = found || bytes.Contains(b, []byte(half+"deleted"))
			}
		}
		if parts == 0 {
			t.Fatal("the image has no layer")
		}
		return found
	}
	s.sh("mkdir /srv/d; for i in 1 2 3; do x=" + half + "; echo ${x}deleted | tee -a /srv/d/f$i > /srv/d/n-${x}deleted; done; yes ${x}deleted | head -c 3000000 > /srv/d/large")
	img, _ := s.capture()
	if err := d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	if !has(img) {
		t.Fatal("the image lacks what is there")
	}
	s.sh("rm -r /srv/d")
	img = s.suspend()
	if has(img) {
		t.Error("the image has what was deleted")
	}
	fork := &session{t: t, d: d, uid: "fork", spec: idling}
	fork.resume(img, schemas.BootFork)
	fork.stopLater()
	if again, _ := fork.capture(); has(again) {
		t.Error("the fork's image has what was deleted")
	}
	s.resume(img, schemas.BootResume)
}

// reading is an image.Writer that counts what is read of a private layer.
type reading struct {
	*image.Writer
	bytes int64
}

func (r *reading) AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error {
	return r.Writer.AddStamped(e, stamp, func() (io.ReadCloser, error) {
		if part(e.Name) == partLayer {
			r.bytes += e.Size
		}
		return open()
	})
}

// What a session has written long ago isn't read again for its next image: neither in the same run,
// nor after a resume on another host.
func TestUnchangedPartsAreNotRead(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	const size = 64 << 20
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write, read := benchKeys(t)
	s := begin(t, open(t, t.TempDir()), "s", idling)
	digest := s.sh(fmt.Sprintf("head -c %d /dev/urandom > /srv/large; sha256sum /srv/large", size))
	changed := time.Now()
	capture := func(base *image.Base) (*image.Base, image.Head, int64) {
		t.Helper()
		if write.Seq++; base != nil {
			head := base.Head()
			write.Base, write.Parent = base, &head
		}
		w, err := image.Create(limited(t), store, write)
		if err != nil {
			t.Fatal(err)
		}
		r := &reading{Writer: w}
		if _, err := s.d.Capture(limited(t), s.next(), r); err != nil {
			t.Fatal(err)
		}
		head, _, _, err := w.Commit(limited(t))
		if err != nil {
			t.Fatal(err)
		}
		return w.Base(), head, r.bytes
	}
	// A file's times prove its content when they are this old.
	<-time.After(time.Until(changed.Add(3 * time.Second)))
	base, _, first := capture(nil)
	if first < size {
		t.Errorf("the first image took %d bytes of the layer", first)
	}
	if err := s.d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.sh("echo changed > /srv/small")
	_, head, second := capture(base)
	if second > size/4 {
		t.Errorf("the second image took %d bytes of the layer", second)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}

	s.d = open(t, t.TempDir())
	s.stopLater()
	img, err := image.Open(limited(t), store, head, read)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if _, err := s.d.Restore(limited(t), s.next(), s.spec, img, schemas.BootTakeover, drivertest.Begin); err != nil {
		t.Fatal(err)
	}
	if base, err = image.LoadBase(limited(t), img); err != nil {
		t.Fatal(err)
	}
	base.Restamp(img)
	_, head, third := capture(base)
	if third > size/4 {
		t.Errorf("the third image, on another host, took %d bytes of the layer", third)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.restoreFrom(store, head, read); err != nil {
		t.Fatal(err)
	}
	if got := s.sh("cat /srv/small; sha256sum /srv/large"); got != "changed\n"+digest {
		t.Errorf("it has %s, and had %s", got, digest)
	}
}

// A session without loop devices has its layer in a directory, and is told so. A host that has
// them takes its image, and inode numbers stay from then on.
func TestDirectoryLayer(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	d.options.Directories = true
	s := begin(t, d, "s", idling)
	s.sh("echo content > /srv/file; rm /etc/passwd")
	img, captured := s.capture()
	if w := captured.Warnings; len(w) != 1 || w[0].Code != schemas.WarnInodes {
		t.Errorf("the warnings are %+v", w)
	}
	if _, ok := img.Content("upper/srv/file"); !ok {
		t.Error("the image lacks the file")
	}
	later := &session{t: t, d: open(t, t.TempDir()), uid: "later", spec: idling}
	later.resume(img, schemas.BootTakeover)
	later.stopLater()
	look := "stat -c %i /srv/file; cat /srv/file; test -e /etc/passwd || echo gone"
	want := later.sh(look)
	if !strings.HasSuffix(want, "content\ngone") {
		t.Errorf("it has %q", want)
	}
	later.cycle()
	if got := later.sh(look); got != want {
		t.Errorf("after a cycle it has %q, before %q", got, want)
	}
}

// On a full disk a session gets ENOSPC, and what it could write is there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=100m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	d := open(t, data)
	s := begin(t, d, "s", idling)
	out, exit := request(t, d, s.uid, attach.Request{Op: attach.OpExec, Argv: []string{"/bin/sh", "-c", "head -c 200M /dev/urandom > /srv/big"}}, "")
	if exit.Code == 0 || !strings.Contains(out, "No space left on device") {
		t.Errorf("200 MB on a disk of 100 MB give %+v, %q", exit, out)
	}
	look := "sync /srv/*; stat -c %s /srv/big; sha256sum /srv/*"
	want := s.sh(look)
	var fs unix.Statfs_t
	if err := unix.Statfs(data, &fs); err != nil || fs.Bavail == 0 {
		t.Errorf("the disk has no reserve: %d blocks, %v", fs.Bavail, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Exits(ctx)
	if s.cycle(); s.sh(look) != want {
		t.Error("what was written to the full disk changed by a resume")
	}
	s.sh("rm /srv/big; until head -c 20M /dev/urandom > /srv/again && sync /srv/again; do sleep 0.1; done")
}

// A shim that is killed leaves no loop device.
func TestKilledShimLeavesNoDevice(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := open(t, data)
	s := begin(t, d, "s", idling)
	attached := func() (n int) {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), data) {
				n++
			}
		}
		return n
	}
	if n := attached(); n != 1 {
		t.Fatalf("a session has %d devices", n)
	}
	state, err := d.shims.readState(s.uid)
	if err == nil {
		err = unix.Kill(state.Shim, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if all, err := d.Recover(limited(t)); err != nil || len(all) != 1 || all[0].State != driver.Exited {
		t.Errorf("Recover gives %+v, %v", all, err)
	}
	for end := time.Now().Add(drivertest.Limit); attached() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its device stays")
		}
	}
}

// A file system that has met an error, and takes no more, isn't captured: what it holds in
// memory alone would be lost. One that goes on is, with a warning, and so is what was resumed
// from that image: the kernel notes it for good.
func TestFailedLayer(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	for _, goesOn := range []bool{false, true} {
		s := begin(t, d, fmt.Sprintf("goes-on-%t", goesOn), idling)
		s.sh("echo before > /srv/file; sync")
		path := d.dir.session(s.uid)
		if goesOn {
			shimsMounts := fmt.Sprintf("--mount=/proc/%d/ns/mnt", s.shimPID())
			if out, err := exec.Command("nsenter", shimsMounts, "mount", "-o", "remount,errors=continue", shim.LayerMount(path)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		if err := os.WriteFile(filepath.Join("/sys/fs/ext4", loopOf(t, shim.LayerPath(path)), "trigger_fs_error"), []byte("by a test"), 0); err != nil {
			t.Fatal(err)
		}
		if !goesOn {
			_, err := d.Capture(limited(t), s.next(), &drivertest.Image{})
			if text, hint := driver.HintOf(err); driver.KindOf(err) != driver.Refused || !strings.Contains(text, "own files has failed") || !strings.Contains(hint, "rollback") {
				t.Errorf("the capture ends with %v", err)
			}
			if got := s.sh("cat /srv/file"); got != "before" {
				t.Errorf("then it has %q", got)
			}
			continue
		}
		for range 2 {
			img, c := s.capture()
			if len(c.Warnings) != 1 || c.Warnings[0].Code != schemas.WarnLayer {
				t.Errorf("it warns %v", c.Warnings)
			}
			if err := d.Stop(limited(t), s.next()); err != nil {
				t.Fatal(err)
			}
			s.resume(img, schemas.BootResume)
			if got := s.sh("cat /srv/file"); got != "before" {
				t.Errorf("after a resume it has %q", got)
			}
		}
		if _, c, err := s.rehearse(schemas.RehearseAlways); err != nil || len(c.Warnings) != 1 || c.Warnings[0].Code != schemas.WarnLayer {
			t.Errorf("rehearsed it warns %v, %v", c.Warnings, err)
		}
	}
}

// loopOf names the loop device of a file.
func loopOf(t *testing.T, file string) string {
	t.Helper()
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backing {
		if is, err := os.ReadFile(b); err == nil && strings.TrimSpace(string(is)) == file {
			return filepath.Base(filepath.Dir(filepath.Dir(b)))
		}
	}
	t.Fatalf("no loop device has %s", file)
	return ""
}
