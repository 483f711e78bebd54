package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

const size = 64 << 30

func formatted(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := Format(f, size, time.Now()); err != nil {
		t.Fatal(err)
	}
	return f
}

// fsck has e2fsck find no fault in a file system.
func fsck(t *testing.T, f *os.File) {
	t.Helper()
	if out, err := exec.Command("/sbin/e2fsck", "-f", "-n", f.Name()).CombinedOutput(); err != nil || bytes.Contains(out, []byte("not cleanly")) {
		t.Errorf("e2fsck finds: %s, %v", out, err)
	}
}

// mounted mounts a file system in a mount namespace of its own and has do work in it. It
// is unmounted when do has returned.
func mounted(t *testing.T, f *os.File, do func(dir string) error) {
	t.Helper()
	dir := t.TempDir()
	err := thread.Mounts(func() error {
		_, err := Mount(f, dir)
		if err == nil {
			err = do(dir)
			err = errors.Join(err, unix.Unmount(dir, 0))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// copied makes a file system of what a reader gives for an image.
func copied(t *testing.T, f *os.File) *os.File {
	t.Helper()
	s, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	m, parts, err := s.Parts(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewFiller(to, m)
	if err != nil {
		t.Fatal(err)
	}
	targets := w.Targets()
	if len(targets) != len(parts) {
		t.Fatalf("%d parts become %d", len(parts), len(targets))
	}
	for i, p := range parts {
		if targets[i].Number != p.Number || targets[i].Bytes != p.Bytes || targets[i].Stamp != p.Stamp {
			t.Errorf("part %+v becomes %+v", p, targets[i])
		}
		n, err := io.CopyBuffer(io.NewOffsetWriter(targets[i], 0), struct{ io.Reader }{p.Open()}, make([]byte, 100_000)) // blocks are cut
		if err != nil || n != p.Bytes {
			t.Fatalf("part %d: %d of %d bytes, %v", p.Number, n, p.Bytes, err)
		}
	}
	return to
}

func synced(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

func taken(t *testing.T, f *os.File) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestFormat(t *testing.T) {
	for _, size := range []int64{1, 1 << 30, size} {
		f := formatted(t, size)
		fsck(t, f)
		if n := taken(t, f); n > 512<<10 {
			t.Errorf("an empty file system of %d bytes takes %d", size, n)
		}
		mounted(t, f, func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600) })
		fsck(t, f)
	}
}

// A copy of a file system that is in use is one that was unmounted, with the same content,
// inode numbers, attributes and links.
func TestSnapshot(t *testing.T) {
	f := formatted(t, size)
	looks := func(dir string) (string, error) {
		out, err := exec.Command("sh", "-c", "cd "+dir+` && find . -printf '%p %i %m %U %n %s %b %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort`).CombinedOutput()
		return string(out), err
	}
	long := bytes.Repeat([]byte("value "), 5000)
	var before, after string
	var cut *os.File
	mounted(t, f, func(dir string) (err error) {
		script := `set -e; cd ` + dir + `; mkdir -p a/b upper work; for i in $(seq 300); do echo $i > a/b/f$i; done
			ln a/b/f1 a/hard; ln -s ../there soft; mkfifo fifo; mknod gone c 0 0
			truncate -s 50M sparse; echo end >> sparse; fallocate -l 20M allocated; head -c 3000000 /dev/urandom > random
			chown 12:13 a/b/f3`
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %w", out, err)
		}
		if err := unix.Setxattr(filepath.Join(dir, "a/b/f2"), "user.long", long, 0); err != nil {
			return err
		}
		if before, err = looks(dir); err != nil {
			return errors.New(before)
		}
		err = synced(dir)
		cut = copied(t, f)
		return err
	})
	fsck(t, cut)
	mounted(t, cut, func(dir string) (err error) {
		got := make([]byte, len(long)+1)
		n, xattrErr := unix.Getxattr(filepath.Join(dir, "a/b/f2"), "user.long", got)
		if xattrErr != nil || !bytes.Equal(got[:n], long) {
			t.Errorf("a long attribute has %d bytes, %v", n, xattrErr)
		}
		after, err = looks(dir)
		return err
	})
	if before != after {
		t.Errorf("it was\n%s\nand its copy is\n%s", before, after)
	}
	if n := taken(t, cut); n > 6<<20 {
		t.Errorf("the copy takes %d bytes", n)
	}
}

// Nothing of a file that was deleted is in a copy: neither its content nor its name nor its
// attributes. An open one without a name is removed by the next mount.
func TestDeletedIsNotCopied(t *testing.T) {
	f := formatted(t, size)
	const secret = "a-secret-that-was-deleted"
	names := []string{"name-" + secret, "dir-" + secret + "/below"}
	var cut *os.File
	mounted(t, f, func(dir string) error {
		if err := os.Mkdir(filepath.Join(dir, "dir-"+secret), 0o700); err != nil {
			return err
		}
		for _, n := range names {
			p := filepath.Join(dir, n)
			err := errors.Join(os.WriteFile(p, bytes.Repeat([]byte(secret), 10000), 0o600), unix.Setxattr(p, "user.a", []byte("attribute "+secret), 0))
			if err != nil {
				return err
			}
		}
		err := errors.Join(os.Symlink("link-"+secret, filepath.Join(dir, "link")), synced(dir))
		if b := content(t, f); !bytes.Contains(b, []byte(secret)) {
			t.Error("the file system doesn't have what was written")
		}
		open, openErr := os.OpenFile(filepath.Join(dir, "open"), os.O_RDWR|os.O_CREATE, 0o600)
		if err = errors.Join(err, openErr); err != nil {
			return err
		}
		defer open.Close()
		fmt.Fprint(open, strings.Repeat("x", 100000))
		for _, n := range append(names, "link", "dir-"+secret, "open") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, n)))
		}
		err = errors.Join(err, synced(dir))
		cut = copied(t, f)
		return err
	})
	if b := content(t, cut); bytes.Contains(b, []byte(secret)) {
		t.Error("the copy has something of what was deleted")
	}
	mounted(t, cut, func(dir string) error { return nil })
	fsck(t, cut)
	s, err := Open(cut)
	if err != nil || len(s.orphans) > 0 || s.Failed() {
		t.Errorf("after the next mount there are the orphans %v, %v", s.orphans, err)
	}
}

// content is what a sparse file has of data.
func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	var all []byte
	for at := int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return all
		}
		end, holeErr := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		b := make([]byte, end-data)
		_, readErr := f.ReadAt(b, data)
		if err := errors.Join(err, holeErr, readErr); err != nil {
			t.Fatal(err)
		}
		all, at = append(all, b...), end
	}
}

// What isn't a file system as Format makes it is refused.
func TestDamage(t *testing.T) {
	for name, at := range map[string]int64{"magic": superOffset + superMagic, "blocks": superOffset + superBlocks + 2, "features": superOffset + superIncompat, "group": BlockSize + 40} {
		f := formatted(t, size)
		if _, err := f.WriteAt([]byte{0x77, 0x77}, at); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(f); !errors.Is(err, ErrDamaged) {
			t.Errorf("with damage to %s it says %v", name, err)
		}
	}
	empty, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := Open(empty); err == nil {
		t.Error("an empty file is taken")
	}
}

func TestTry(t *testing.T) {
	dir := t.TempDir()
	if err := Try(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestFewGroups makes sure that the first allocation in a large file system reads no bitmaps of
// groups that it doesn't need.
func TestFewGroups(t *testing.T) {
	mounted(t, formatted(t, size), func(dir string) error {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return err
		}
		path := fmt.Sprintf("/sys/fs/ext4/loop%d/mb_prefetch", unix.Minor(st.Dev))
		if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != "0" {
			t.Errorf("%s has %q (%v), want 0", path, b, err)
		}
		options, err := os.ReadFile("/proc/thread-self/mounts")
		if !bytes.Contains(options, []byte("no_prefetch_block_bitmaps")) {
			t.Errorf("the kernel reads all bitmaps after the mount:\n%s", options)
		}
		return err
	})
}
