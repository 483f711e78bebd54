package dir

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// disk is what a power cut leaves by the letter: of a file its content at its last sync, of a
// directory its names at its last sync, and of what never was synced nothing. A journal
// usually keeps more.
type disk struct {
	t     *testing.T
	files map[inode]string
	dirs  map[inode]map[string]inode
	open  map[inode]*os.File // so that no other file gets the inode
}

type inode struct{ dev, number uint64 }

func inodeOf(info os.FileInfo) inode {
	st := info.Sys().(*syscall.Stat_t)
	return inode{st.Dev, st.Ino}
}

func (d *disk) look(path string) inode {
	d.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		d.t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		d.t.Fatal(err)
	}
	i := inodeOf(info)
	if d.open[i] != nil {
		f.Close()
	} else {
		d.open[i] = f
	}
	return i
}

// sync takes the place of File.Sync.
func (d *disk) sync(f *os.File) error {
	i := d.look(f.Name())
	entries, err := os.ReadDir(f.Name())
	if err != nil { // a file
		content, err := os.ReadFile(f.Name())
		d.files[i] = string(content)
		return err
	}
	names := map[string]inode{}
	for _, e := range entries {
		at := d.look(filepath.Join(f.Name(), e.Name()))
		names[e.Name()] = at
		if _, synced := d.files[at]; !synced && e.Type().IsRegular() {
			d.t.Errorf("%s got its name before its content was synced", e.Name())
		}
	}
	d.dirs[i] = names
	return nil
}

// read gives an object as it is after a power cut.
func (d *disk) read(root, name string) (string, bool) {
	at := d.look(root)
	for _, part := range strings.Split(name, "/") {
		next, ok := d.dirs[at][part]
		if !ok {
			return "", false
		}
		at = next
	}
	content, ok := d.files[at]
	return content, ok
}

// Whenever the power fails, what was stored is there and what was deleted is not: with two
// processes that make and remove each other's directories, and others that are killed after
// they have made some.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(10) {
		cutAtEachMoment(t, seed)
	}
}

func cutAtEachMoment(t *testing.T, seed uint64) {
	root := t.TempDir()
	d := &disk{t, map[inode]string{}, map[inode]map[string]inode{}, map[inode]*os.File{}}
	defer func() {
		for _, f := range d.open {
			f.Close()
		}
	}()
	stores := []*Store{open(t, root), open(t, root)}
	for _, s := range stores {
		s.sync = d.sync
	}
	r := rand.New(rand.NewPCG(seed, 0))
	dirs := []string{"acme/lin/packs", "acme/lin/snaps", "acme/two/snaps", "beta/lin/snaps"}
	names := []string{"1", "2"}
	stored := map[string]bool{}
	for step := range 100 {
		s := stores[r.IntN(len(stores))]
		dir := dirs[r.IntN(len(dirs))]
		name := dir + "/" + names[r.IntN(len(names))]
		var err error
		what := "put"
		switch n := r.IntN(10); {
		case n == 0:
			what = "make directories of"
			err = os.MkdirAll(filepath.Join(root, dir), 0o700)
		case stored[name]:
			what = "delete"
			err = s.Delete(t.Context(), name)
			delete(stored, name)
		default:
			err = s.Put(t.Context(), name, strings.NewReader(name), int64(len(name)))
			stored[name] = true
		}
		if err != nil {
			t.Fatalf("seed %d, step %d: %s %s: %v", seed, step, what, name, err)
		}
		if r.IntN(3) == 0 {
			tick()
		}
		for _, dir := range dirs {
			for _, n := range names {
				object := dir + "/" + n
				if content, ok := d.read(root, object); ok != stored[object] || ok && content != object {
					t.Fatalf("seed %d, step %d, after %s %s: %s is %q (there: %t), want there: %t; stored are %v",
						seed, step, what, name, object, content, ok, stored[object], slices.Sorted(maps.Keys(stored)))
				}
			}
		}
	}
}
