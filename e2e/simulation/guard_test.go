package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// host is the machine: it outlives the workers on it.
type host struct {
	*fake.Driver
	w *world

	mu        sync.Mutex
	capturing map[schemas.UID]bool
	broken    []string
}

func (h *host) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

// crashed is what a shim does when its worker ends in the middle of a capture: it
// lets the session run on.
func (h *host) crashed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.capturing {
		h.LetGo(uid)
	}
	clear(h.capturing)
}

// guard is the host's driver as one worker sees it.
type guard struct {
	*host
	l *life
}

func (g guard) Start(ctx context.Context, f driver.Fence, spec driver.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Instance{}, err
	}
	if n, live := g.Counter(f.UID); live {
		g.complain("session %s is started beside a tree that has counted to %d", f.Name, n)
	}
	return g.Driver.Start(ctx, f, spec, begin)
}

func (g guard) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Captured{}, err
	}
	g.note(f, true)
	c, err := g.Driver.Capture(ctx, f, sink)
	if e := g.l.step(context.WithoutCancel(ctx)); e != nil {
		return c, e // the worker is gone, and its shim has seen to the session
	}
	g.note(f, false)
	return c, err
}

func (g guard) note(f driver.Fence, capturing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if capturing {
		g.capturing[f.UID] = true
	} else {
		delete(g.capturing, f.UID)
	}
}

func (g guard) Restore(ctx context.Context, f driver.Fence, spec driver.Spec, src driver.Source, boot driver.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Instance{}, err
	}
	if n, live := g.Counter(f.UID); live {
		g.complain("session %s is restored beside a tree that has counted to %d", f.Name, n)
	}
	return g.Driver.Restore(ctx, f, spec, src, boot, begin)
}

func (g guard) Thaw(ctx context.Context, f driver.Fence) error {
	if err := g.l.step(ctx); err != nil {
		return err
	}
	if rec, err := g.w.ledger.get(f.Name); err == nil && rec.UID == f.UID && rec.State == schemas.Resuming {
		g.complain("session %s is thawed while its record says resuming", f.Name)
	}
	return g.Driver.Thaw(ctx, f)
}

func (g guard) Stop(ctx context.Context, f driver.Fence) error {
	if err := g.l.step(ctx); err != nil {
		return err
	}
	if n, live := g.Counter(f.UID); live {
		if why := g.w.mayEnd(f, n); why != nil {
			g.complain("session %s, which has counted to %d, is killed: %v", f.Name, n, why)
		}
	}
	return g.Driver.Stop(ctx, f)
}

func (g guard) Recover(ctx context.Context) ([]driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return nil, err
	}
	return g.Driver.Recover(ctx)
}

// mayEnd says why a live tree must not be killed now, if so.
func (w *world) mayEnd(f driver.Fence, n int) error {
	rec, err := w.ledger.get(f.Name)
	switch {
	case err != nil:
		return err
	case rec.State == schemas.Deleted, rec.State == schemas.Exited:
		return nil
	case rec.State != schemas.Suspended && rec.State != schemas.Resuming:
		return fmt.Errorf("its record says %s", rec.State)
	case rec.Head == nil:
		return errors.New("no image has replaced it")
	case !w.chance(20): // opening images is most of what a life takes
		return nil
	}
	kept, err := w.counterIn(*rec.Head)
	if err == nil && kept != n {
		err = fmt.Errorf("its image has counted to %d", kept)
	}
	return err
}

// counterIn reads the counter out of an image.
func (w *world) counterIn(head schemas.Head) (int, error) {
	img, err := image.Open(context.Background(), goods{shop: w.shop}, head, image.ReadOptions{Identities: w.keys.identities(), Trusted: w.keys.trusted})
	if err != nil {
		return 0, err
	}
	defer img.Close()
	r, err := img.Open("criu/memory")
	if err != nil {
		return 0, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return 0, err
	}
	var m struct{ Counter int }
	return m.Counter, json.Unmarshal(data, &m)
}
