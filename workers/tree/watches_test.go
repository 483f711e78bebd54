package tree

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overlay mounts one on a scratch file system and returns its root.
func overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mount := func(source, target, kind, options string) {
		if err := unix.Mount(source, target, kind, 0, options); err != nil {
			t.Fatalf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	mount("scratch", dir, "tmpfs", "")
	for _, d := range []string{"lower/deep/down", "upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower/deep/down/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	mount("overlay", root, "overlay", "xino=on,lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	return root
}

func watch(t *testing.T, path string) (num int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	return fd
}

// watchesBy lists what this process watches by one descriptor.
func watchesBy(t *testing.T, num int) []Watch {
	t.Helper()
	all, err := Watches(t.Context(), []int{os.Getpid(), ended(t)})
	if err != nil {
		t.Fatal(err)
	}
	var some []Watch
	for _, w := range all {
		if w.Num == num {
			some = append(some, w)
		}
	}
	return some
}

func TestWatchesOnOverlayGetTheirPaths(t *testing.T) {
	root := overlay(t)
	t.Chdir(root)
	for _, path := range []string{"deep/down", "deep/down/file", "."} {
		num := watch(t, path)
		want := filepath.Join(root, path)
		if all := watchesBy(t, num); len(all) != 1 || !all[0].Named || all[0].Path != want || all[0].Kind != "overlay" {
			t.Errorf("watches %+v, want one of %s on overlay", all, want)
		}
	}
}

func TestWatchesByHandleNeedNoPath(t *testing.T) {
	num := watch(t, "/dev/shm")
	if all := watchesBy(t, num); len(all) != 1 || all[0].Named || all[0].Path != "" {
		t.Errorf("watches %+v, want one that needs no path", all)
	}
}

func TestWatchesGiveUp(t *testing.T) {
	root := overlay(t)
	t.Chdir(root)
	f, err := os.Create("gone")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	num := watch(t, "gone")
	if err := os.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	all, err := Watches(ctx, []int{os.Getpid()})
	if err != nil || len(all) != 1 || all[0].Num != num || !all[0].Named || all[0].Path != "" {
		t.Errorf("watches %+v (%v), want one without a path", all, err)
	}
}

func TestParseWatch(t *testing.T) {
	for line, want := range map[string]Watch{
		"inotify wd:1 ino:a sdev:2b mask:2 ignored_mask:0 fhandle-bytes:20\n": {Number: "1", dev: 0x2b, ino: 10, Mask: 2},
		"fanotify ino:1 sdev:33 mflags:0 mask:20 ignored_mask:0\n":            {dev: 0x33, ino: 1, Mask: 0x20},
		"fanotify sdev:2e mflags:0 mask:20 ignored_mask:0\n":                  {dev: 0x2e, Whole: true, Mask: 0x20},
	} {
		if w, ok := parseWatch(line); !ok || w != want {
			t.Errorf("%q is %+v %v, want %+v", line, w, ok, want)
		}
	}
	for _, line := range []string{"fanotify mnt_id:44 mflags:0 mask:20\n", "fanotify flags:0 event-flags:8000\n", "pos:\t0\n", ""} {
		if w, ok := parseWatch(line); ok {
			t.Errorf("%q was read as %+v", line, w)
		}
	}
}

func TestFileID(t *testing.T) {
	// 8:1 as stat gives it, and a major and a minor number above 8 bits.
	for dev, want := range map[uint64]uint64{0x801: 8<<20 | 1, unix.Mkdev(300, 1000): 300<<20 | 1000} {
		if id := fileID(&syscall.Stat_t{Dev: dev}); id[0] != want {
			t.Errorf("%x is %x, want %x", dev, id[0], want)
		}
	}
}
