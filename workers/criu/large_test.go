package criu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// TestLargeSession resumes a large session from a store: as a stream, though there is room for
// it in memory. With a damaged pack it is refused, and nothing of it is left; mended it comes
// back as it was.
func TestLargeSession(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	s := begin(t, openWay(t, t.TempDir(), driver.WayAuto, 1<<40), "s", holding(80))
	s.want("ready")
	before := s.ask("1", "digest")
	root := t.TempDir()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	write, read := benchKeys(t)
	w, err := image.Create(limited(t), store, write)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.d.Capture(limited(t), s.next(), w)
	if err != nil {
		t.Fatal(err)
	}
	if c.Way != driver.WayBuffered {
		t.Errorf("it was captured by way of %s, because %s", c.Way, c.WhyWay)
	}
	head, _, _, err := w.Commit(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	mend := damageMiddle(t, root)
	_, err = s.restoreFrom(store, head, read)
	if !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("from a damaged pack Restore gives %v", err)
	}
	if _, err := s.d.Inspect(limited(t), s.uid); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("after that it is here: %v", err)
	}
	mend()
	i, err := s.restoreFrom(store, head, read)
	if err != nil {
		t.Fatal(err)
	}
	if i.Way != driver.WayStream {
		t.Errorf("it came back by way of %s", i.Way)
	}
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
}

func (s *session) restoreFrom(store *dir.Store, head image.Head, o image.ReadOptions) (driver.Instance, error) {
	s.t.Helper()
	img, err := image.Open(limited(s.t), store, head, o)
	if err != nil {
		s.t.Fatal(err)
	}
	defer img.Close()
	return s.d.Restore(limited(s.t), s.next(), s.spec, img, schemas.BootResume, drivertest.Begin)
}

// damageMiddle changes one byte in the middle of the pack in the middle of a store.
func damageMiddle(t *testing.T, root string) (mend func()) {
	t.Helper()
	var packs []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if st, err := e.Info(); err != nil || st.Size() > 1<<20 {
			packs = append(packs, path)
		}
		return nil
	})
	if err != nil || len(packs) < 4 {
		t.Fatalf("the store has %d packs, %v", len(packs), err)
	}
	path := packs[len(packs)/2]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	bad := append([]byte(nil), whole...)
	bad[len(bad)/2] ^= 1
	put(bad)
	return func() { put(whole) }
}
