package matrix

import (
	"context"
	"errors"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake/guard"
)

var errGone = errors.New("the process was killed")

// life is one process of a part, until it is killed: from then on nothing that it
// still does has an effect.
type life struct {
	nc    *nats.Conn
	ctx   context.Context // ends when it is killed
	kill  context.CancelFunc
	stop  context.CancelFunc // of its Serve
	ended chan error
}

func (l *life) die() {
	l.kill()
	l.nc.Close()
}

// mine gives ctx, ended by the end of the process too.
func (l *life) mine(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(errGone) })
	return ctx, func() { stop(); cancel(nil) }
}

func (l *life) alive(err error) error {
	if l.ctx.Err() != nil {
		return errGone
	}
	return err
}

// records are those of a process.
type records struct {
	*statekv.Store
	l *life
}

func (r records) Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	if err := r.l.alive(nil); err != nil {
		return statekv.Versioned{}, err
	}
	ctx, done := r.l.mine(ctx)
	defer done()
	v, err := r.Store.Get(ctx, n)
	return v, r.l.alive(err)
}

func (r records) Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	if err := r.l.alive(nil); err != nil {
		return statekv.Versioned{}, err
	}
	ctx, done := r.l.mine(ctx)
	defer done()
	v, err := r.Store.Swap(ctx, prev, t)
	return v, r.l.alive(err)
}

// goods are the objects as a process sees them.
type goods struct {
	objectstore.Store
	l *life
}

func (g goods) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := g.l.alive(nil); err != nil {
		return err
	}
	return g.Store.Put(ctx, name, r, size)
}

func (g goods) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := g.l.alive(nil); err != nil {
		return nil, err
	}
	return g.Store.Get(ctx, name, offset, length)
}

func (g goods) Delete(ctx context.Context, name string) error {
	if err := g.l.alive(nil); err != nil {
		return err
	}
	return g.Store.Delete(ctx, name)
}

// hands are the driver as a worker's process has it.
type hands struct {
	*guard.Guard
	l *life
}

// begins is begin, unless the process is gone before or after it: then its shim
// undoes what is not let run yet.
func (h hands) begins(begin func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := h.l.alive(nil); err != nil {
			return err
		}
		return h.l.alive(begin(ctx))
	}
}

func (h hands) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if err := h.l.alive(nil); err != nil {
		return driver.Instance{}, err
	}
	return h.Guard.Start(ctx, f, spec, h.begins(begin))
}

// Capture of a process that is killed in it has its shim let the session run on.
func (h hands) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	if err := h.l.alive(nil); err != nil {
		return driver.Captured{}, err
	}
	c, err := h.Guard.Capture(ctx, f, sink)
	if h.l.alive(nil) != nil {
		h.LetGo(f.UID)
	}
	return c, h.l.alive(err)
}

func (h hands) Thaw(ctx context.Context, f driver.Fence) error {
	if err := h.l.alive(nil); err != nil {
		return err
	}
	return h.Guard.Thaw(ctx, f)
}

func (h hands) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if err := h.l.alive(nil); err != nil {
		return driver.Instance{}, err
	}
	return h.Guard.Restore(ctx, f, spec, src, boot, h.begins(begin))
}

func (h hands) Stop(ctx context.Context, f driver.Fence) error {
	if err := h.l.alive(nil); err != nil {
		return err
	}
	return h.Guard.Stop(ctx, f)
}
