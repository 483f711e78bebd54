package matrix

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

// guard stands around the fake and notes every call that breaks a promise: a tree
// that is killed though no image has replaced it, a second one beside the first,
// one that runs on while another is restored.
type guard struct {
	*fake.Driver
	l *lane

	mu     sync.Mutex
	broken []string
}

func (g *guard) complain(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = append(g.broken, fmt.Sprintf(format, args...))
}

// complaints gives what was noted since the last time.
func (g *guard) complaints() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.broken
	g.broken = nil
	return out
}

// Start implements driver.Driver.
func (g *guard) Start(ctx context.Context, f driver.Fence, spec driver.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if n, live := g.Counter(f.UID); live {
		g.complain("session %s is started beside a tree that has counted to %d", f.Name, n)
	}
	return g.Driver.Start(ctx, f, spec, begin)
}

// Restore implements driver.Driver.
func (g *guard) Restore(ctx context.Context, f driver.Fence, spec driver.Spec, src driver.Source, boot driver.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if n, live := g.Counter(f.UID); live {
		g.complain("session %s is restored beside a tree that has counted to %d", f.Name, n)
	}
	return g.Driver.Restore(ctx, f, spec, src, boot, begin)
}

// Thaw implements driver.Driver.
func (g *guard) Thaw(ctx context.Context, f driver.Fence) error {
	if rec, err := g.l.records.Get(g.l.ctx, f.Name); err == nil && rec.UID == f.UID && rec.State == schemas.Resuming {
		g.complain("session %s is thawed while its record says resuming", f.Name)
	}
	return g.Driver.Thaw(ctx, f)
}

// Stop implements driver.Driver.
func (g *guard) Stop(ctx context.Context, f driver.Fence) error {
	if n, live := g.Counter(f.UID); live {
		if why := g.mayEnd(f, n); why != nil {
			g.complain("session %s, which has counted to %d, is killed: %v", f.Name, n, why)
		}
	}
	return g.Driver.Stop(ctx, f)
}

// mayEnd says why a live tree must not be killed now, if so.
func (g *guard) mayEnd(f driver.Fence, n int) error {
	rec, err := g.l.records.Get(g.l.ctx, f.Name)
	if err != nil || rec.UID != f.UID {
		return nil // the server is away; or it is another session of the name
	}
	switch {
	case rec.State == schemas.Deleted, rec.State == schemas.Exited, rec.Op != nil && rec.Op.Kind == schemas.OpKill:
		return nil
	case rec.State != schemas.Suspended && rec.State != schemas.Resuming:
		return fmt.Errorf("its record says %s", rec.State)
	case rec.Head == nil:
		return errors.New("no image has replaced it")
	}
	kept, err := g.l.counterIn(*rec.Head)
	if err == nil && kept != n {
		err = fmt.Errorf("its image has counted to %d", kept)
	}
	return err
}

// counterIn reads the counter out of an image.
func (l *lane) counterIn(head schemas.Head) (int, error) {
	img, err := image.Open(l.ctx, l.disk, head, image.ReadOptions{Identities: l.identities(), Trusted: l.trusted})
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
