package worker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
)

var errStore = errors.New("the store is down")

// faultyStore is a store that can be told to fail, and to wait.
type faultyStore struct {
	objectstore.Store
	mu       sync.Mutex
	failPuts string        // of names that contain it
	failGets string        // of names that contain it
	entered  chan struct{} // sent to when a snapshot's header is to be put
	release  chan struct{} // and waited for then
}

func (s *faultyStore) set(fn func(*faultyStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

func (s *faultyStore) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	s.mu.Lock()
	fail := s.failPuts != "" && strings.Contains(name, s.failPuts)
	entered, release := s.entered, s.release
	s.mu.Unlock()
	if fail {
		return errStore
	}
	if strings.Contains(name, "/snaps/") && entered != nil {
		entered <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.Put(ctx, name, r, size)
}

func (s *faultyStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	s.mu.Lock()
	fail := s.failGets != "" && strings.Contains(name, s.failGets)
	s.mu.Unlock()
	if fail {
		return nil, errStore
	}
	return s.Store.Get(ctx, name, offset, length)
}

func mustOpen(t *testing.T, root string) objectstore.Store {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
