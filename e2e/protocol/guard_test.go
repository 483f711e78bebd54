package protocol_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake/guard"
)

// watched is the host's fake with a guard around it.
func (h *host) watched() *guard.Guard {
	return &guard.Guard{
		Driver: h.fake,
		Record: func(n schemas.Name) (schemas.SessionRecord, error) {
			v, err := h.records.Get(h.ctx, n)
			return v.SessionRecord, err
		},
		Kept: func(head schemas.Head) (int, error) {
			return guard.Counter(h.ctx, h.disk, head, image.ReadOptions{Identities: h.identities(), Trusted: h.trusted})
		},
	}
}

var errShop = errors.New("the store is down")

// shop is a store that fails while it is told to.
type shop struct {
	objectstore.Store
	mu   sync.Mutex
	puts string // of names that contain it; none if empty
	gets string
}

func (s *shop) fail(puts, gets string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts, s.gets = puts, gets
}

func (s *shop) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	s.mu.Lock()
	puts := s.puts
	s.mu.Unlock()
	if puts != "" && strings.Contains(name, puts) {
		return errShop
	}
	return s.Store.Put(ctx, name, r, size)
}

func (s *shop) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	s.mu.Lock()
	gets := s.gets
	s.mu.Unlock()
	if gets != "" && strings.Contains(name, gets) {
		return nil, errShop
	}
	return s.Store.Get(ctx, name, offset, length)
}
