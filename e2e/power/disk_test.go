package power_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// diskSize is enough for the streams of a test; the file is sparse.
const diskSize = 96 << 20

// disk is a file system inside a file, mounted.
type disk struct {
	file  string
	mount string
}

// newDisk makes an empty one.
func newDisk(t *testing.T) disk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(file)
	if err == nil {
		err = f.Truncate(diskSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, "make a file system (install e2fsprogs)", "mkfs.ext4", "-q", "-F", file)
	return mounted(t, file)
}

// mounted mounts a disk. An hour passes before its file system would write
// anything back that no one asked it to sync.
func mounted(t *testing.T, file string) disk {
	t.Helper()
	d := disk{file: file, mount: t.TempDir()}
	run(t, "mount a file (it needs root and a loop device)", "mount", "-o", "loop,commit=3600", file, d.mount)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", d.mount).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", d.mount, err, out)
		}
	})
	return d
}

func run(t *testing.T, what, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", what, err, out)
	}
}

// copy gives what has reached the device, as a disk of its own.
func (d disk) copy(t *testing.T) string {
	t.Helper()
	from, err := os.Open(d.file)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	file := filepath.Join(t.TempDir(), "copy")
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(fmt.Errorf("copy the disk: %w", err))
	}
	return file
}
