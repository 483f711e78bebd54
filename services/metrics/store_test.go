package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/retry"
	"github.com/diapause/diapause/objectstore/storetest"
	"github.com/diapause/diapause/services/metrics"
)

func directory(t *testing.T) objectstore.Store {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "diapause-metrics-") // a disk would take its time over each object
	if err != nil {
		path = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	s, err := dir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A store that is counted still is one.
func TestStoreConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objectstore.Store { return metrics.New("1").Store(directory(t)) })
}

// failing fails as it is told to.
type failing struct {
	objectstore.Store
	err error
	cut error // of readers, after the first bytes
}

func (f *failing) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Put(ctx, name, r, size)
}

func (f *failing) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := f.Store.Get(ctx, name, offset, length)
	if err != nil || f.cut == nil {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 2), broken{f.cut}), r}, nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestStoreCounts(t *testing.T) {
	m := metrics.New("1")
	under := &failing{Store: directory(t)}
	s := m.Store(retry.Wrap(under, retry.Options{}))
	ctx := t.Context()
	put := func(name string) error { return s.Put(ctx, name, strings.NewReader("hello"), 5) }
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"full": objectstore.ErrFull, "denied": objectstore.ErrDenied} {
		under.err = fmt.Errorf("put: %w", err)
		if got := put(name); !errors.Is(got, err) {
			t.Fatalf("put: %v, want %v", got, err)
		}
		if _, last := s.Last(); !errors.Is(last, err) {
			t.Errorf("the last error is %v, want %v", last, err)
		}
	}
	under.err = nil
	if _, err := s.Get(ctx, "nothing", 0, -1); !errors.Is(err, objectstore.ErrNotFound) {
		t.Fatal(err)
	}
	if _, last := s.Last(); last != nil {
		t.Errorf("the store answered, and its last error is %v", last)
	}
	if at, failed := s.Failed(); failed == nil || at.IsZero() {
		t.Errorf("that it failed before is forgotten: %v", failed)
	}
	r, err := s.Get(ctx, "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || string(data) != "hello" {
		t.Fatalf("read %q: %v", data, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if err := s.List(ctx, "", func(objectstore.Info) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	want(t, m,
		`diapause_store_bytes_total{op="put"} 5`,
		`diapause_store_bytes_total{op="get"} 5`,
		`diapause_store_errors_total{op="put",reason="full"} 1`,
		`diapause_store_errors_total{op="put",reason="denied"} 1`,
		`diapause_store_errors_total{op="get",reason="other"} 0`,
		`diapause_store_errors_total{op="list",reason="other"} 0`,
		`diapause_store_operation_duration_seconds{op="put"} 3`,
		`diapause_store_operation_duration_seconds{op="get"} 2`,
		`diapause_store_retries_total{} 0`,
	)
}

// away fails the first call to list.
type away struct {
	objectstore.Store
	once sync.Once
}

func (a *away) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) (err error) {
	a.once.Do(func() { err = errors.New("connection refused") })
	if err != nil {
		return err
	}
	return a.Store.List(ctx, prefix, fn)
}

// What patience got over is a retry, and no failure.
func TestStoreCountsRetries(t *testing.T) {
	m := metrics.New("1")
	s := m.Store(retry.Wrap(&away{Store: directory(t)}, retry.Options{First: time.Millisecond}))
	if err := s.List(t.Context(), "", func(objectstore.Info) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want(t, m, `diapause_store_retries_total{} 1`, `diapause_store_errors_total{op="list",reason="other"} 0`)
}

// A reader that breaks off is a failure of the store, too.
func TestStoreCountsBrokenReaders(t *testing.T) {
	m := metrics.New("1")
	s := m.Store(&failing{Store: directory(t), cut: errors.New("connection reset")})
	if err := s.Put(t.Context(), "a", strings.NewReader("hello"), 5); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Fatal("all was read")
	}
	for range 2 { // closing twice counts once
		_ = r.Close()
	}
	want(t, m, `diapause_store_errors_total{op="get",reason="other"} 1`, `diapause_store_bytes_total{op="get"} 2`, `diapause_store_operation_duration_seconds{op="get"} 1`)
}
