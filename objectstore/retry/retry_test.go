package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/retry"
	"github.com/diapause/diapause/objectstore/storetest"
)

var errAway = errors.New("connection refused")

// shaky is a store that fails as it is told to.
type shaky struct {
	objectstore.Store
	mu     sync.Mutex
	before int // so many operations fail before they have done anything
	after  int // then so many fail although they are done
	cut    int // then so many readers break off half way
	calls  int
}

func (s *shaky) fails(done func() error) error {
	s.mu.Lock()
	s.calls++
	before, after := s.before > 0, s.before == 0 && s.after > 0
	if before {
		s.before--
	}
	if after {
		s.after--
	}
	s.mu.Unlock()
	if before {
		return errAway
	}
	if err := done(); err != nil || !after {
		return err
	}
	return errAway
}

func (s *shaky) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	return s.fails(func() error { return s.Store.Put(ctx, name, r, size) })
}

func (s *shaky) Delete(ctx context.Context, name string) error {
	return s.fails(func() error { return s.Store.Delete(ctx, name) })
}

func (s *shaky) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	return s.fails(func() error { return s.Store.List(ctx, prefix, fn) })
}

func (s *shaky) Get(ctx context.Context, name string, offset, length int64) (r io.ReadCloser, err error) {
	err = s.fails(func() error {
		r, err = s.Store.Get(ctx, name, offset, length)
		return err
	})
	if err == nil && s.cut > 0 {
		s.cut--
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, 3), broken{}), r}, nil
	}
	return r, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errAway }

func bench(t *testing.T, o retry.Options) (*shaky, objectstore.Store) {
	t.Helper()
	d, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &shaky{Store: d}
	o.First = time.Millisecond
	return s, retry.Wrap(s, o)
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objectstore.Store {
		_, s := bench(t, retry.Options{})
		return s
	})
}

// An operation that fails a few times succeeds in the end, and happens once.
func TestAwayForAWhile(t *testing.T) {
	heard := 0
	s, r := bench(t, retry.Options{Notify: func(error, time.Duration) { heard++ }})
	for range 2 {
		s.before, s.after = 2, 2
		if err := r.Put(t.Context(), "a/b", strings.NewReader("content"), 7); err != nil {
			t.Fatalf("put: %v", err)
		}
		s.before, s.cut = 2, 2
		body, err := r.Get(t.Context(), "a/b", 1, 5)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		got, err := io.ReadAll(body)
		if body.Close(); err != nil || string(got) != "onten" {
			t.Fatalf("read %q, %v", got, err)
		}
		s.before, s.after = 2, 2
		var names []string
		err = r.List(t.Context(), "", func(i objectstore.Info) error { names = append(names, i.Name); return nil })
		if err != nil || len(names) != 1 {
			t.Fatalf("list: %v, %v", names, err)
		}
		s.before, s.after = 2, 2
		if err := r.Delete(t.Context(), "a/b"); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	if heard < 20 {
		t.Errorf("heard of %d failures", heard)
	}
}

// A name that another writer took while the outcome was unknown is reported.
func TestObjectOfAnotherWriter(t *testing.T) {
	s, r := bench(t, retry.Options{})
	if err := s.Store.Put(t.Context(), "a", strings.NewReader("theirs"), 6); err != nil {
		t.Fatal(err)
	}
	s.before = 1
	if err := r.Put(t.Context(), "a", strings.NewReader("mine.."), 6); !errors.Is(err, objectstore.ErrExists) {
		t.Errorf("put: %v, want ErrExists", err)
	}
}

func TestDecidedIsNotRepeated(t *testing.T) {
	s, r := bench(t, retry.Options{})
	if _, err := r.Get(t.Context(), "nothing", 0, -1); !errors.Is(err, objectstore.ErrNotFound) || s.calls != 1 {
		t.Errorf("get: %v after %d calls", err, s.calls)
	}
	s.calls = 0
	if err := r.Put(t.Context(), "a", bytes.NewReader(nil), 1); !errors.Is(err, objectstore.ErrSize) || s.calls != 1 {
		t.Errorf("put: %v after %d calls", err, s.calls)
	}
}

func TestPatienceEnds(t *testing.T) {
	s, r := bench(t, retry.Options{For: 50 * time.Millisecond})
	s.before = 1 << 30
	if err := r.Delete(t.Context(), "a"); !errors.Is(err, errAway) || s.calls < 2 {
		t.Errorf("delete: %v after %d calls, want the store's error", err, s.calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, forever := bench(t, retry.Options{})
	s.calls = 0
	cancel()
	if err := forever.Delete(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("delete after the end of its context: %v", err)
	}
}

// A reader that breaks off and can't be opened again says so, as often as it is
// asked, and can be closed.
func TestReaderThatIsGone(t *testing.T) {
	s, r := bench(t, retry.Options{For: 50 * time.Millisecond})
	if err := s.Store.Put(t.Context(), "a", strings.NewReader("abcdef"), 6); err != nil {
		t.Fatal(err)
	}
	s.cut = 1
	body, err := r.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.before = 1 << 30
	s.mu.Unlock()
	if b, err := io.ReadAll(body); string(b) != "abc" || !errors.Is(err, errAway) {
		t.Errorf("read %q, %v; want the first half and the store's error", b, err)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, errAway) {
		t.Errorf("read again: %v, want the same error", err)
	}
	if err := body.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
