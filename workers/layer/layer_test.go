package layer

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// known is a sink that has a file's content if it has seen its stamp.
type known struct {
	drivertest.Image
	stamps map[string]string // by name, as they come
	before string            // a stamp that it has the content of
}

func (k *known) Knows(stamp string) bool { return stamp == k.before }

func (k *known) AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error {
	if k.stamps == nil {
		k.stamps = map[string]string{}
	}
	k.stamps[e.Name] = stamp
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return k.Add(e, r)
}

// stampsOf gives the stamps that the files of a directory have at a time.
func stampsOf(t *testing.T, dir string, at time.Time) map[string]string {
	t.Helper()
	return stampsBeside(t, dir, at, "")
}

// stampsBeside gives them to a sink that knows one from before.
func stampsBeside(t *testing.T, dir string, at time.Time, before string) map[string]string {
	t.Helper()
	stamps, err := NewStamps(at)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	k := &known{before: before}
	if _, err := Add(t.Context(), k, root, "v", stamps); err != nil {
		t.Fatal(err)
	}
	return k.stamps
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file has the same stamp until it is changed, and none while its times don't prove
// that it wasn't.
func TestStamps(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "diapause-layer-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if kept := stampOfKind(t, dir); !kept {
		t.Fatalf("these tests need %s to be on ext4, xfs or btrfs", dir)
	}
	f := filepath.Join(dir, "f")
	put(t, f, "one")
	put(t, filepath.Join(dir, "other"), "one")
	if s := stampsOf(t, dir, time.Now()); s["v/f"] != "" || s["v/other"] != "" {
		t.Errorf("files that were changed just now have stamps: %q", s)
	}
	later := time.Now().Add(time.Hour) // as if it were long ago
	first := stampsOf(t, dir, later)
	if first["v/f"] == "" || first["v/f"] == first["v/other"] {
		t.Errorf("the stamps are %q", first)
	}
	if again := stampsOf(t, dir, later); again["v/f"] != first["v/f"] {
		t.Errorf("unchanged, it has the stamp %q, had %q", again["v/f"], first["v/f"])
	}
	if young := stampsBeside(t, dir, time.Now(), first["v/f"]); young["v/f"] != first["v/f"] || young["v/other"] != "" {
		t.Errorf("of two that were changed just now, one of them known, the stamps are %q", young)
	}
	// Another content of the same size, its time put back.
	st, err := os.Stat(f)
	if err != nil {
		t.Fatal(err)
	}
	for was := changed(t, f); changed(t, f) == was; { // the clock of a file system moves in steps
		put(t, f, "two")
		if err := os.Chtimes(f, st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	if s := stampsOf(t, dir, later); s["v/f"] == first["v/f"] || s["v/other"] != first["v/other"] {
		t.Errorf("changed, with its time put back, it has %q; it had %q", s, first)
	}
}

// changed is when a file was changed last, which can't be put back.
func changed(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ctim.Nano()
}

// stampOfKind reports whether a directory is on a file system whose times prove anything.
func stampOfKind(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Stat_t
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return (&Stamps{places: map[uint64]place{}}).place(f, st.Dev) != ""
}

// Through a mapping a file changes without a trace in its times.
func TestMappedHasNoStamp(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "diapause-layer-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	put(t, filepath.Join(dir, "mapped"), "content")
	put(t, filepath.Join(dir, "read"), "content")
	var maps [][]byte
	for name, how := range map[string]int{"mapped": unix.PROT_READ | unix.PROT_WRITE, "read": unix.PROT_READ} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 7, how, unix.MAP_SHARED)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, m)
	}
	later := time.Now().Add(time.Hour)
	if s := stampsOf(t, dir, later); s["v/mapped"] != "" || s["v/read"] == "" {
		t.Errorf("the stamps are %q", s)
	}
	for _, m := range maps {
		if err := unix.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
	if s := stampsOf(t, dir, later); s["v/mapped"] == "" {
		t.Error("a file that isn't mapped any more has no stamp")
	}
}

// tmpfs doesn't note what is written through a mapping.
func TestMemoryHasNoStamp(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "diapause-layer-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	put(t, filepath.Join(dir, "f"), "content")
	if s := stampsOf(t, dir, time.Now().Add(time.Hour)); s["v/f"] != "" {
		t.Errorf("the stamps are %q", s)
	}
}

// No entry gets out of the directory that is filled.
func TestExtractStaysInside(t *testing.T) {
	for what, entries := range map[string][]image.Entry{
		"by a symlink":  {{Name: "v/out", Type: image.TypeSymlink, Link: ".."}, {Name: "v/out/f", Type: image.TypeFile}},
		"by its name":   {{Name: "v/../f", Type: image.TypeFile}},
		"by a link":     {{Name: "v/f", Type: image.TypeHardlink, Link: "w/f"}},
		"by a link's .": {{Name: "v/f", Type: image.TypeHardlink, Link: "v/../f"}},
		"as its root":   {{Name: "v", Type: image.TypeFile}},
	} {
		above := t.TempDir()
		put(t, filepath.Join(above, "kept"), "content")
		dir := filepath.Join(above, "dir")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		img := &drivertest.Image{}
		for _, e := range entries {
			if err := img.Add(e, strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := Extract(t.Context(), img, "v", root, true); err == nil {
			t.Errorf("%s: it was taken", what)
		}
		root.Close()
		names, err := os.ReadDir(above)
		if err != nil || len(names) != 2 {
			t.Errorf("%s: above it there is %v, %v", what, names, err)
		}
	}
}

// Clear empties a directory, follows no link out of it, and leaves it.
func TestClear(t *testing.T) {
	above := t.TempDir()
	put(t, filepath.Join(above, "kept"), "content")
	dir := filepath.Join(above, "dir")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "a", "f"), "content")
	if err := os.Symlink(above, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := Clear(root); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(above, "kept")); err != nil {
		t.Error(err)
	}
}

// vanishing is a sink at whose second entry something is removed.
type vanishing struct {
	drivertest.Image
	gone string
}

func (v *vanishing) Add(e image.Entry, r io.Reader) error {
	if len(v.Entries()) == 1 {
		if err := os.Remove(v.gone); err != nil {
			return err
		}
	}
	return v.Image.Add(e, r)
}

// What vanishes from a tree is left out, except from one that is not in use: there it is an error.
func TestVanished(t *testing.T) {
	for _, still := range []bool{false, true} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "a"), "content")
		put(t, filepath.Join(dir, "b"), "content")
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		sink := &vanishing{gone: filepath.Join(dir, "b")}
		if still {
			err = AddStill(t.Context(), sink, root, "v")
		} else {
			_, err = Add(t.Context(), sink, root, "v", nil)
		}
		root.Close()
		if (err != nil) != still || still && !strings.Contains(err.Error(), "v/b") || len(sink.Entries()) != 2 {
			t.Errorf("of a tree that is not in use (%t) there is %v, with %v", still, sink.Entries(), err)
		}
	}
}

// Directories that no entry tells of are made as they are in the tree that the directory
// will be merged with.
func TestExtractMakesTheWay(t *testing.T) {
	looks, into := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(looks, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(looks, "a"), 0o711); err != nil {
		t.Fatal(err)
	}
	x := &Extraction{Source: &drivertest.Image{}, As: "v"}
	for to, dir := range map[**os.File]string{&x.Looks: looks, &x.Root: into} {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		*to = f
	}
	if err := x.Extract(image.Entry{Name: "v/a/b/c/soft", Type: image.TypeSymlink, Link: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := x.Finish(); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{"a": 0o711, "a/b": 0o700, "a/b/c": 0o755} {
		st, err := os.Stat(filepath.Join(into, dir))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s is %v, %v; want %v", dir, st.Mode(), err, want)
		}
	}
	if err := x.Extract(image.Entry{Name: "w/f", Type: image.TypeFIFO}); err == nil {
		t.Error("an entry of another part was taken")
	}
}
