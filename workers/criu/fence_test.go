package criu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// small mounts a file system of so many bytes in memory.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("%v (this needs root)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill writes until nothing more fits in.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.WriteString(strings.Repeat("x", 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// TestFenceOnFullDisk raises a fence that is there, and refuses an older epoch after it.
func TestFenceOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := small(t, "128k")
	f := &fences{dir: dir}
	if err := f.pass("u", 9); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	for _, epoch := range []uint64{10, 1 << 62} {
		if err := f.pass("u", epoch); err != nil {
			t.Fatalf("on a full disk epoch %d doesn't pass: %v", epoch, err)
		}
		if err := (&fences{dir: dir}).pass("u", epoch-1); !errors.Is(err, driver.ErrStale) {
			t.Errorf("after epoch %d an older one gives %v", epoch, err)
		}
	}
	if err := f.pass("other", 1); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("on a full disk a new fence gives %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files are there, %v", len(left), err)
	}
}
