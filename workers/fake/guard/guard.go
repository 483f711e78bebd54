package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// ErrNotLooked is what Kept may say to leave one out: opening images takes its time.
var ErrNotLooked = errors.New("this image isn't looked at")

// Guard is a fake driver that is watched. Its fields are set before its first call.
type Guard struct {
	*fake.Driver
	// Record reads a session's record; what it can't read breaks no promise.
	Record func(schemas.Name) (schemas.SessionRecord, error)
	// Kept gives what the counter of a session had counted to in an image: see Counter.
	Kept func(schemas.Head) (int, error)

	mu     sync.Mutex
	broken []string
}

// Complain notes a broken promise.
func (g *Guard) Complain(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = append(g.broken, fmt.Sprintf(format, args...))
}

// Complaints gives what was noted since the last time.
func (g *Guard) Complaints() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.broken
	g.broken = nil
	return out
}

// Start implements driver.Driver.
func (g *Guard) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	g.alone(f, "started")
	return g.Driver.Start(ctx, f, spec, begin)
}

// Restore implements driver.Driver.
func (g *Guard) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	g.alone(f, "restored")
	return g.Driver.Restore(ctx, f, spec, src, boot, begin)
}

func (g *Guard) alone(f driver.Fence, what string) {
	if n, live := g.Counter(f.UID); live {
		g.Complain("session %s is %s beside a tree that has counted to %d", f.Name, what, n)
	}
}

// Thaw implements driver.Driver.
func (g *Guard) Thaw(ctx context.Context, f driver.Fence) error {
	if rec, err := g.Record(f.Name); err == nil && rec.UID == f.UID && rec.State == schemas.Resuming {
		g.Complain("session %s is thawed while its record says resuming", f.Name)
	}
	return g.Driver.Thaw(ctx, f)
}

// Stop implements driver.Driver.
func (g *Guard) Stop(ctx context.Context, f driver.Fence) error {
	if n, live := g.Counter(f.UID); live {
		if why := g.mayEnd(f, n); why != nil {
			g.Complain("session %s, which has counted to %d, is killed: %v", f.Name, n, why)
		}
	}
	return g.Driver.Stop(ctx, f)
}

// mayEnd says why a live tree must not be killed now, if so.
func (g *Guard) mayEnd(f driver.Fence, n int) error {
	rec, err := g.Record(f.Name)
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
	kept, err := g.Kept(*rec.Head)
	if errors.Is(err, ErrNotLooked) {
		return nil
	}
	if err == nil && kept != n {
		err = fmt.Errorf("its image has counted to %d", kept)
	}
	return err
}

// Counter reads what a session of the fake driver had counted to out of its image.
func Counter(ctx context.Context, store objectstore.Store, head schemas.Head, o image.ReadOptions) (int, error) {
	img, err := image.Open(ctx, store, head, o)
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
