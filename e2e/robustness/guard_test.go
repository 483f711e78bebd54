package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// guard stands around a host's driver and notes every tree that comes to life
// while another of the same session lives, here or elsewhere.
type guard struct {
	*fake.Driver
	f    *machines
	host *host
}

func (f *machines) complain(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// Start implements driver.Driver.
func (g *guard) Start(ctx context.Context, fe driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	return g.Driver.Start(ctx, fe, spec, g.alone(fe, begin))
}

// Restore implements driver.Driver.
func (g *guard) Restore(ctx context.Context, fe driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	return g.Driver.Restore(ctx, fe, spec, src, boot, g.alone(fe, begin))
}

// alone looks for other trees when a new one is about to run its first
// instruction. One of another host may be there frozen, and never runs again.
func (g *guard) alone(fe driver.Fence, begin func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := begin(ctx); err != nil {
			return err
		}
		for _, h := range g.f.hosts {
			if i, err := h.fake.Inspect(ctx, fe.UID); err == nil && (h == g.host || i.State == driver.Running) {
				g.f.complain("session %s begins on %s while a tree of it is %s on %s", fe.Name, g.host.id, i.State, h.id)
			}
		}
		return nil
	}
}

// count lets a session's program count one, wherever it runs.
func (f *machines) count(uid schemas.UID) (n int, ran bool) {
	at := ""
	for _, h := range f.hosts {
		m, runs := h.fake.Count(uid)
		if runs && ran {
			f.complain("session with uid %s runs on %s and %s", uid, at, h.id)
		}
		if runs {
			n, ran, at = m, true, string(h.id)
		}
	}
	return n, ran
}

// slowStore is a store on a slow disk, while it is told to be one.
type slowStore struct {
	objectstore.Store
	slow atomic.Bool
	flag string // the file that tells those of other processes
}

// slowAtMost is what a call takes then.
const slowAtMost = 300 * time.Millisecond

func (s *slowStore) set(slow bool) error {
	s.slow.Store(slow)
	if slow {
		return os.WriteFile(s.flag, nil, 0o600)
	}
	if err := os.Remove(s.flag); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *slowStore) wait(ctx context.Context) {
	if _, err := os.Stat(s.flag); err != nil && !s.slow.Load() {
		return
	}
	select {
	case <-time.After(time.Duration(rand.Int64N(int64(slowAtMost)))):
	case <-ctx.Done():
	}
}

func (s *slowStore) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	s.wait(ctx)
	return s.Store.Put(ctx, name, r, size)
}

func (s *slowStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	s.wait(ctx)
	return s.Store.Get(ctx, name, offset, length)
}
