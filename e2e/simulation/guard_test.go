package simulation

import (
	"context"
	"sync"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/fake/guard"
)

// host is the machine: it outlives the workers on it.
type host struct {
	*guard.Guard

	mu        sync.Mutex
	capturing map[schemas.UID]bool
}

// newHost makes one with the fake, watched.
func (w *world) newHost() *host {
	return &host{capturing: map[schemas.UID]bool{}, Guard: &guard.Guard{
		Driver: fake.New(),
		Record: func(n schemas.Name) (schemas.SessionRecord, error) {
			v, err := w.records.Get(context.Background(), n)
			return v.SessionRecord, err
		},
		Kept: func(head schemas.Head) (int, error) {
			if !w.chance(20) { // opening images is most of what a life takes
				return 0, guard.ErrNotLooked
			}
			return w.counterIn(head)
		},
	}}
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

// hands are the host's driver as one worker sees it.
type hands struct {
	*host
	l *life
}

func (g hands) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Instance{}, err
	}
	return g.Guard.Start(ctx, f, spec, g.l.w.said(f, begin))
}

// said looks, when a tree is about to execute its first instruction, that the record
// says so.
func (w *world) said(f driver.Fence, begin func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := begin(ctx)
		if v := w.now(); err == nil && (v.State == schemas.Resuming || v.State == schemas.Starting) {
			w.host.Complain("session %s begins to run, and its record says %s", f.Name, v.State)
		}
		return err
	}
}

func (g hands) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Captured{}, err
	}
	g.note(f, true)
	c, err := g.Guard.Capture(ctx, f, sink)
	if e := g.l.step(context.WithoutCancel(ctx)); e != nil {
		return c, e // the worker is gone, and its shim has seen to the session
	}
	g.note(f, false)
	return c, err
}

// note remembers that a session is being captured, or not any more.
func (g hands) note(f driver.Fence, capturing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if capturing {
		g.capturing[f.UID] = true
	} else {
		delete(g.capturing, f.UID)
	}
}

func (g hands) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return driver.Instance{}, err
	}
	return g.Guard.Restore(ctx, f, spec, src, boot, g.l.w.said(f, begin))
}

func (g hands) Thaw(ctx context.Context, f driver.Fence) error {
	if err := g.l.step(ctx); err != nil {
		return err
	}
	return g.Guard.Thaw(ctx, f)
}

func (g hands) Stop(ctx context.Context, f driver.Fence) error {
	if err := g.l.step(ctx); err != nil {
		return err
	}
	g.l.w.heeded(f)
	return g.Guard.Stop(ctx, f)
}

// heeded looks, when a tree is about to be killed for its suspend, that no one typed
// into it between the decision and the record of it: that undoes every suspend.
func (w *world) heeded(f driver.Fence) {
	v := w.now()
	if _, live := w.host.Counter(f.UID); !live || v.State != schemas.Suspended || v.Op == nil {
		return
	}
	for _, past := range w.log() {
		if past.Transition.Type == schemas.TSuspended {
			v.Stored = past.Stored // with any later changes
		}
	}
	all, _ := w.wire.since(v.Op.Seq)
	for _, m := range all {
		if m.Source.Kind == schemas.KindInput && m.At.Before(v.Stored) {
			w.host.Complain("session %s is killed, though input came in its suspend: message %d", f.Name, m.Seq)
			return
		}
	}
}

func (g hands) Recover(ctx context.Context) ([]driver.Instance, error) {
	if err := g.l.step(ctx); err != nil {
		return nil, err
	}
	return g.Guard.Recover(ctx)
}

// counterIn reads the counter out of an image.
func (w *world) counterIn(head schemas.Head) (int, error) {
	return guard.Counter(context.Background(), goods{shop: w.shop}, head, image.ReadOptions{Identities: w.keys.identities(), Trusted: w.keys.trusted})
}
