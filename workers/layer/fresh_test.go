package layer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// told is an image that is told the stamps of what is made of it.
type told struct {
	drivertest.Image
	stamps map[string]string
}

func (k *told) Restamp(name, stamp string) {
	if k.stamps == nil {
		k.stamps = map[string]string{}
	}
	k.stamps[name] = stamp
}

// extracted makes files of an image in a directory of its own.
func extracted(t *testing.T, alone bool, entries ...image.Entry) (dir string, img *told) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "diapause-layer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	img = &told{}
	for _, e := range entries {
		content := ""
		if e.Type == image.TypeFile {
			content, e.Size, e.Mode, e.MTime = "content", 7, 0o644, 1_000_000_000_000_000_007
		}
		if err := img.Add(e, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := Extract(t.Context(), img, "v", root, alone); err != nil {
		t.Fatal(err)
	}
	return dir, img
}

// Files that were made of an image have the stamps that it was told of.
func TestExtractTellsStamps(t *testing.T) {
	entries := []image.Entry{
		{Name: "v", Type: image.TypeDir, Mode: 0o755}, {Name: "v/f", Type: image.TypeFile}, {Name: "v/d", Type: image.TypeDir, Mode: 0o755},
		{Name: "v/d/g", Type: image.TypeFile, UID: 12}, {Name: "v/again", Type: image.TypeHardlink, Link: "v/d/g"}, {Name: "v/soft", Type: image.TypeSymlink, Link: "f"},
	}
	dir, img := extracted(t, true, entries...)
	later := time.Now().Add(time.Hour) // as if it were long ago
	want := stampsOf(t, dir, later)
	want["v/d/g"] = want["v/again"] // the walk comes to that name first
	delete(want, "v/again")
	if len(img.stamps) != 2 || !maps.Equal(img.stamps, want) {
		t.Errorf("it was told %q, and the files have %q", img.stamps, want)
	}
	if _, img := extracted(t, false, entries...); len(img.stamps) != 0 {
		t.Errorf("of files that others can change it was told %q", img.stamps)
	}
}

// A change to such a file is seen, even at once and with its time put back.
func TestChangeAfterExtractIsSeen(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for i := range 10 {
		dir, img := extracted(t, true, image.Entry{Name: "v", Type: image.TypeDir, Mode: 0o755}, image.Entry{Name: "v/f", Type: image.TypeFile})
		f := filepath.Join(dir, "f")
		how := "by a write"
		if i%2 == 1 {
			how = "through a mapping"
			throughMapping(t, f)
		} else {
			overwrite(t, f)
		}
		then := time.Unix(0, 1_000_000_000_000_000_007)
		if err := os.Chtimes(f, then, then); err != nil {
			t.Fatal(err)
		}
		got := stampsOf(t, dir, later)["v/f"]
		if was := img.stamps["v/f"]; was == "" || got == was {
			t.Fatalf("changed %s, it has the stamp %q, had %q", how, got, was)
		}
	}
}

// Stamps are told when the clock that files are dated by has moved on since the last of
// them was made, and not before: a file changed in the same tick would keep its stamp.
func TestStampsAreToldAfterTheTick(t *testing.T) {
	img := &told{}
	newest := time.Now().Add(50 * time.Millisecond).UnixNano()
	f := &fresh{to: img, names: []string{"v/f"}, of: map[string]freshFile{"v/f": {stamp: "s"}}, newest: newest}
	if err := f.tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		t.Fatal(err)
	}
	if now.Nano() <= newest || img.stamps["v/f"] != "s" {
		t.Errorf("%v before the clock has moved on it was told %q", time.Duration(newest-now.Nano()), img.stamps)
	}
}

func overwrite(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprint(f, "changed")
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func throughMapping(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	copy(m, "changed")
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
}

// A process that ends while others are looked at is none that could write. Which error the
// kernel gives depends on when it ends.
func TestProcessThatEnds(t *testing.T) {
	for _, e := range []error{unix.ENOENT, unix.ESRCH, unix.EACCES} {
		if err := error(&os.PathError{Op: "open", Path: "/proc/1/maps", Err: e}); !isGone(err) {
			t.Errorf("%v fails the capture of others", err)
		}
	}
	if isGone(unix.EIO) {
		t.Error("maps that can't be read are passed over")
	}
}
