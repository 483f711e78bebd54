package dir

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// counter counts the syncs of a store by directory below its root; files count for the one
// that they are in.
type counter struct {
	store *Store
	n     map[string]int
}

func count(t *testing.T, s *Store) *counter {
	t.Helper()
	c := &counter{s, map[string]int{}}
	s.sync = func(f *os.File) error {
		name, err := filepath.Rel(s.root, f.Name())
		if err != nil {
			return err
		}
		if filepath.Dir(name) == tmpDir {
			name = tmpDir
		}
		c.n[name]++
		return f.Sync()
	}
	return c
}

// during counts what syncs it takes to store objects.
func (c *counter) during(t *testing.T, names ...string) map[string]int {
	t.Helper()
	c.n = map[string]int{}
	for _, name := range names {
		if err := c.store.Put(t.Context(), name, strings.NewReader(name), int64(len(name))); err != nil {
			t.Fatal(err)
		}
	}
	return c.n
}

// tick waits until directories are born at another time than those that are there. Some of these
// may have a finer time than the clock's, and a later one.
func tick() {
	for now := time.Now().UnixNano(); clock() <= now; {
	}
}

// objects are what an image consists of: a pack, the ids of its pages, and the header.
func objects(n int) []string {
	return []string{fmt.Sprintf("acme/lin/packs/%d.age", n), fmt.Sprintf("acme/lin/packs/%d.ids.age", n), fmt.Sprintf("acme/lin/snaps/1-%d", n)}
}

// A first image has each directory synced; of a later one the contents are, and the names.
func TestSyncs(t *testing.T) {
	c := count(t, open(t, t.TempDir()))
	first := c.during(t, objects(1)...)
	for _, dir := range []string{".", "acme", "acme/lin", "acme/lin/packs", "acme/lin/snaps"} {
		if first[dir] == 0 {
			t.Errorf("the first image has syncs %v, want one of %s", first, dir)
		}
	}
	tick()
	c.during(t, objects(2)...) // the directories may have been too young to be told apart
	want := map[string]int{tmpDir: 3, "acme/lin/packs": 2, "acme/lin/snaps": 1}
	if got := c.during(t, objects(3)...); !maps.Equal(got, want) {
		t.Errorf("a later image has syncs %v, want %v", got, want)
	}
}

// A directory that another process made again is not the one that was synced, even if it has
// its inode.
func TestDirectoryMadeAgain(t *testing.T) {
	root := t.TempDir()
	c := count(t, open(t, root))
	c.during(t, objects(1)...)
	tick()
	c.during(t, objects(2)...)
	if err := os.RemoveAll(filepath.Join(root, "acme/lin/snaps")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "acme/lin/snaps"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{tmpDir: 3, "acme/lin": 1, "acme/lin/packs": 2, "acme/lin/snaps": 1}
	if got := c.during(t, objects(3)...); !maps.Equal(got, want) {
		t.Errorf("syncs %v, want %v", got, want)
	}
}

// A sync that failed counts for nothing: Put reports it, and the next one syncs again.
func TestSyncFails(t *testing.T) {
	for _, dir := range []string{tmpDir, ".", "acme", "acme/lin", "acme/lin/snaps"} {
		t.Run(dir, func(t *testing.T) {
			c := count(t, open(t, t.TempDir()))
			if err := os.MkdirAll(filepath.Join(c.store.root, "acme/lin/snaps"), 0o700); err != nil {
				t.Fatal(err)
			}
			tick()
			working := c.store.sync
			c.store.sync = func(f *os.File) error {
				if f.Name() == filepath.Join(c.store.root, dir) || dir == tmpDir && filepath.Dir(f.Name()) == c.store.tmp() {
					return os.ErrDeadlineExceeded
				}
				return working(f)
			}
			if err := c.store.Put(t.Context(), "acme/lin/snaps/1-1", strings.NewReader("x"), 1); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("put: error %v, want that of the sync", err)
			}
			c.store.sync = working
			if n := c.during(t, "acme/lin/snaps/1-2"); n[dir] == 0 {
				t.Errorf("syncs after the failure: %v, want one of %s", n, dir)
			}
		})
	}
}

// What is remembered is bounded.
func TestManyDirectories(t *testing.T) {
	var d durable
	for i := range 3 * maxDurable {
		d.add(fmt.Sprint(i), identity{inode: uint64(i)})
	}
	if len(d.dirs) > maxDurable {
		t.Errorf("%d directories are remembered, want at most %d", len(d.dirs), maxDurable)
	}
	if last := 3*maxDurable - 1; !d.has(fmt.Sprint(last), identity{inode: uint64(last)}) {
		t.Error("the last one is forgotten")
	}
}
