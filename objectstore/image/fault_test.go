package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// faulty fails chosen calls of a store.
type faulty struct {
	objectstore.Store
	puts atomic.Int64
	put  func(n int64, name string, do func() error) error
	get  func(name string) error
}

func (s *faulty) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	do := func() error { return s.Store.Put(ctx, name, r, size) }
	if s.put == nil {
		return do()
	}
	return s.put(s.puts.Add(1), name, do)
}

func (s *faulty) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if s.get != nil {
		if err := s.get(name); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, name, offset, length)
}

// tryWrite writes an image, aborts it if that fails, and returns the error.
func (f *fixture) tryWrite(store objectstore.Store, o WriteOptions, items []item) (Head, error) {
	f.Helper()
	w, err := Create(f.Context(), store, o)
	if err != nil {
		return Head{}, err
	}
	defer w.Abort()
	for _, it := range items {
		if err := w.Add(it.Entry, bytes.NewReader(it.data)); err != nil {
			return Head{}, err
		}
	}
	head, _, _, err := w.Commit(f.Context())
	return head, err
}

// Each Put in turn finds the store full: nothing is left of the image, and the
// parent is as it was.
func TestEachPutFails(t *testing.T) {
	f := newFixtureAt(t, shmDir(t, "fail"))
	parentItems := []item{fileItem("criu/a", text(1<<20))}
	w, parent, _ := f.write(f.options(), parentItems)
	want := f.objects()
	items := []item{fileItem("criu/a", append(parentItems[0].data, text(40*PageSize)...))}
	for fail := int64(1); ; fail++ {
		o := f.next(parent, w.Base())
		o.Base = nil // in full, with a key of its own
		o.Parent = nil
		o.cuts = cuts{frame: 8, pages: 100, bytes: 1 << 20}
		store := &faulty{Store: f.store, put: func(n int64, name string, do func() error) error {
			if n == fail {
				return fmt.Errorf("put %s: %w", name, objectstore.ErrFull)
			}
			return do()
		}}
		head, err := f.tryWrite(store, o, items)
		if err == nil {
			if fail < 5 {
				t.Fatalf("only %d puts", fail-1)
			}
			f.check(head, items)
			break
		}
		if !errors.Is(err, ErrFull) {
			t.Fatalf("put %d fails: error %v, want ErrFull", fail, err)
		}
		if got := f.objects(); !slices.Equal(got, want) {
			t.Fatalf("put %d fails: left %v, want %v", fail, got, want)
		}
	}
	f.check(parent, parentItems)
}

// A header whose Put fails after it has been stored is found to be there.
func TestHeaderStoredButFailed(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	lost := errors.New("connection lost")
	store := &faulty{Store: f.store, put: func(_ int64, name string, do func() error) error {
		err := do()
		if strings.Contains(name, "/snaps/") {
			return errors.Join(err, lost)
		}
		return err
	}}
	head, err := f.tryWrite(store, f.options(), items)
	if err != nil {
		t.Fatal(err)
	}
	f.check(head, items)

	// When that can't be found out, nothing may be deleted.
	store.get = func(name string) error {
		if strings.Contains(name, "/snaps/") {
			return lost
		}
		return nil
	}
	if _, err := f.tryWrite(store, f.options(), items); !errors.Is(err, lost) {
		t.Fatalf("error %v, want the store's", err)
	}
	all, err := List(t.Context(), f.store, "acme", "lin1", f.trusted)
	if err != nil || len(all) != 2 {
		t.Fatalf("list: %v, error %v", all, err)
	}
	f.check(all[1].Head, items)
}

func TestNameTaken(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	o := f.options()
	_, head, _ := f.write(o, items)
	want := f.objects()
	if _, err := f.tryWrite(f.store, o, items); !errors.Is(err, ErrExists) {
		t.Fatalf("error %v, want ErrExists", err)
	}
	if got := f.objects(); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	f.check(head, items)
}

// A disk that is really full.
func TestDiskFull(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "tmpfs", root).CombinedOutput(); err != nil {
		t.Fatalf("mount a small tmpfs: %v: %s (this test needs root)", err, out)
	}
	defer syscall.Unmount(root, syscall.MNT_DETACH)
	f := newFixtureAt(t, root)
	small := []item{fileItem("criu/a", random(2<<20))}
	w, head, _ := f.write(f.options(), small)
	want := f.objects()
	big := []item{fileItem("criu/a", random(20<<20))}
	if _, err := f.tryWrite(f.store, f.next(head, w.Base()), big); !errors.Is(err, ErrFull) {
		t.Fatalf("error %v, want ErrFull", err)
	}
	if got := f.objects(); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	f.check(head, small)
	more := append(small, fileItem("criu/b", random(1<<20)))
	_, head, _ = f.write(f.next(head, w.Base()), more)
	f.check(head, more)
}

// The content's reader fails, gives too little or too much, or the names clash.
func TestBadContent(t *testing.T) {
	f := newFixture(t)
	broken := errors.New("source broke")
	for what, add := range map[string]func(w *Writer) error{
		"broken": func(w *Writer) error {
			return w.Add(Entry{Name: "a", Type: TypeFile, Size: -1}, io.MultiReader(bytes.NewReader(text(3<<20)), errReader{broken}))
		},
		"short": func(w *Writer) error {
			return w.Add(Entry{Name: "a", Type: TypeFile, Size: 10}, strings.NewReader("x"))
		},
		"long": func(w *Writer) error {
			return w.Add(Entry{Name: "a", Type: TypeFile, Size: 1}, strings.NewReader("xy"))
		},
		"no name":   func(w *Writer) error { return w.Add(Entry{Type: TypeDir}, nil) },
		"leads out": func(w *Writer) error { return w.Add(Entry{Name: "a/../../b", Type: TypeDir}, nil) },
		"absolute":  func(w *Writer) error { return w.Add(Entry{Name: "/a", Type: TypeDir}, nil) },
		"type":      func(w *Writer) error { return w.Add(Entry{Name: "a", Type: "door"}, nil) },
		"mode":      func(w *Writer) error { return w.Add(Entry{Name: "a", Type: TypeDir, Mode: 0o40755}, nil) },
		"twice": func(w *Writer) error {
			return errors.Join(w.Add(Entry{Name: "a", Type: TypeDir}, nil), w.Add(Entry{Name: "a", Type: TypeDir}, nil))
		},
		"below a link": func(w *Writer) error {
			return errors.Join(w.Add(Entry{Name: "a", Type: TypeSymlink, Link: "/etc"}, nil), w.Add(Entry{Name: "a/b", Type: TypeDir}, nil))
		},
		"no target": func(w *Writer) error { return w.Add(Entry{Name: "a", Type: TypeHardlink, Link: "b"}, nil) },
	} {
		w, err := Create(t.Context(), f.store, f.options())
		if err != nil {
			t.Fatal(err)
		}
		err = add(w)
		if what == "broken" && !errors.Is(err, broken) {
			t.Errorf("%s: error %v", what, err)
		}
		if _, _, _, commitErr := w.Commit(t.Context()); commitErr == nil || err != nil && !errors.Is(commitErr, err) {
			t.Errorf("%s: commit after error %v: error %v", what, err, commitErr)
		}
		w.Abort()
		w.Abort()
		if left := f.objects(); len(left) != 0 {
			t.Fatalf("%s: left %v", what, left)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// The context ends in the middle: everything stops, nothing is left.
func TestCancelled(t *testing.T) {
	f := newFixtureAt(t, shmDir(t, "cancel"))
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Create(ctx, f.store, f.options())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = w.Add(Entry{Name: "criu/a", Type: TypeFile, Size: -1}, io.LimitReader(randomReader{}, 100<<20))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("add: error %v, want context.Canceled", err)
	}
	if _, _, _, err := w.Commit(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: error %v, want context.Canceled", err)
	}
	w.Abort()
	if left := f.objects(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

type randomReader struct{}

func (randomReader) Read(p []byte) (int, error) { return copy(p, random(min(len(p), 1<<16))), nil }

// A store that fails for a moment while an image is read: the error says so, it
// is none of damage, and the next read goes on.
func TestStoreFailsWhileReading(t *testing.T) {
	f := newFixture(t)
	data := random(3 << 20)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", data)})
	var failing atomic.Bool
	lost := errors.New("connection lost")
	store := &faulty{Store: f.store, get: func(string) error {
		if failing.Load() {
			return lost
		}
		return nil
	}}
	r, err := Open(t.Context(), store, head, f.readOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	failing.Store(true)
	if _, err := readEntry(r, "criu/a"); !errors.Is(err, lost) || refused(err) {
		t.Fatalf("error %v, want the store's and no other", err)
	}
	failing.Store(false)
	if got, err := readEntry(r, "criu/a"); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("afterwards: %d bytes, error %v", len(got), err)
	}
}

func TestConcurrentReaders(t *testing.T) {
	f := newFixture(t)
	head, items := f.chain()
	r := f.open(head)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			it := items[i%len(items)]
			if got, err := readEntry(r, it.Name); err != nil || !bytes.Equal(got, it.data) {
				t.Errorf("%s: %d bytes, error %v", it.Name, len(got), err)
			}
			at, size, err := r.ReaderAt(it.Name)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(io.NewSectionReader(at, 1000, size)); err != nil || !bytes.Equal(got, it.data[1000:]) {
				t.Errorf("%s: %d bytes, error %v", it.Name, len(got), err)
			}
		})
	}
	wg.Wait()
}

// Closing while others read ends their reading with an error, and no data that
// isn't theirs.
func TestCloseWhileReading(t *testing.T) {
	f := newFixture(t)
	data := random(20 << 20)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", data)})
	r := f.open(head)
	rc, err := r.Open("criu/a")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 100)
	if _, err := io.ReadFull(rc, first); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := io.ReadAll(rc); !errors.Is(err, context.Canceled) || refused(err) {
		t.Errorf("read after close: error %v, want context.Canceled", err)
	}
}
