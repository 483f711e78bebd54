package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/objectstore"
)

// shop keeps objects.
type shop struct {
	mu      sync.Mutex
	objects map[string][]byte
	made    map[string]time.Time
	failing string // what fails: names that contain it; nothing if empty
}

func newShop() *shop { return &shop{objects: map[string][]byte{}, made: map[string]time.Time{}} }

var errShop = errors.New("the store is down")

func (s *shop) fail(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = part
}

// goods are the shop as one process sees it; without a life as the tests do.
type goods struct {
	*shop
	l *life
}

func (g goods) step(ctx context.Context, name string) error {
	if g.l == nil {
		return nil
	}
	if err := g.l.step(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing != "" && strings.Contains(name, g.failing) {
		return errShop
	}
	return nil
}

func (g goods) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(data)) != size {
		return objectstore.ErrSize
	}
	if err := g.step(ctx, name); err != nil {
		return err
	}
	g.mu.Lock()
	_, there := g.objects[name]
	if !there {
		g.objects[name], g.made[name] = data, time.Now()
	}
	g.mu.Unlock()
	if there {
		return fmt.Errorf("put %s: %w", name, objectstore.ErrExists)
	}
	return g.step(ctx, "")
}

func (g goods) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := g.step(ctx, name); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	data, ok := g.objects[name]
	if !ok {
		return nil, fmt.Errorf("get %s: %w", name, objectstore.ErrNotFound)
	}
	data = data[min(offset, int64(len(data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (g goods) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if err := g.step(ctx, prefix); err != nil {
		return err
	}
	g.mu.Lock()
	var all []objectstore.Info
	for name, data := range g.objects {
		if strings.HasPrefix(name, prefix) {
			all = append(all, objectstore.Info{Name: name, Size: int64(len(data)), ModTime: g.made[name]})
		}
	}
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b objectstore.Info) int { return strings.Compare(a.Name, b.Name) })
	for _, i := range all {
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

func (g goods) Delete(ctx context.Context, name string) error {
	if err := g.step(ctx, name); err != nil {
		return err
	}
	g.mu.Lock()
	delete(g.objects, name)
	g.mu.Unlock()
	return g.step(ctx, "")
}
