package criu

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// watchers are the sessions whose end Exits waits for.
type watchers struct {
	mu      sync.Mutex
	live    map[schemas.UID]context.CancelFunc // nil until Exits watches it
	changed chan struct{}                      // closed at the next change
}

func (w *watchers) init() {
	if w.live == nil {
		w.live, w.changed = make(map[schemas.UID]context.CancelFunc), make(chan struct{})
	}
}

func (w *watchers) add(uid schemas.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	if _, ok := w.live[uid]; !ok {
		w.live[uid] = nil
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// forget ends the wait for a session whose end was ordered.
func (w *watchers) forget(uid schemas.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	if cancel := w.live[uid]; cancel != nil {
		cancel()
	}
	delete(w.live, uid)
}

// claim returns the sessions that aren't watched yet, each with a context that
// ends when it is forgotten, and a channel that tells of more.
func (w *watchers) claim(ctx context.Context) (map[schemas.UID]context.Context, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	claimed := make(map[schemas.UID]context.Context)
	for uid, cancel := range w.live {
		if cancel == nil {
			claimed[uid], w.live[uid] = context.WithCancel(ctx)
		}
	}
	return claimed, w.changed
}

// release lets another Exits watch what this one did.
func (w *watchers) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, cancel := range w.live {
		if cancel != nil {
			cancel()
		}
		w.live[uid] = nil
	}
}

// Exits delivers each session that ended by itself, until ctx ends; the channel
// is closed then. One Exits runs at a time.
func (d *Driver) Exits(ctx context.Context) <-chan driver.Instance {
	out := make(chan driver.Instance)
	go func() {
		defer close(out)
		var wg sync.WaitGroup
		defer d.watchers.release()
		defer wg.Wait()
		wg.Go(func() { d.keepRoom(ctx) })
		for {
			claimed, more := d.watchers.claim(ctx)
			for uid, ctx := range claimed {
				wg.Go(func() { d.awaitExit(ctx, uid, out) })
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watchPause is how long awaitExit waits before it asks again after an error.
const watchPause = 100 * time.Millisecond

func (d *Driver) awaitExit(ctx context.Context, uid schemas.UID, out chan<- driver.Instance) {
	for ctx.Err() == nil {
		i, err := d.nextExit(ctx, uid)
		switch {
		case errors.Is(err, driver.ErrNotHere):
			return // it left nothing
		case err == nil && i.State == driver.Exited:
			select {
			case out <- i:
				d.watchers.forget(uid)
			case <-ctx.Done():
			}
			return
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
		}
	}
}

// nextExit waits until the session has ended, or its shim has.
func (d *Driver) nextExit(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	m, err := d.shims.order(ctx, uid, shim.Order{Op: shim.OrderWait})
	if err == nil {
		return instanceOf(*m.State, false), nil
	}
	if ctx.Err() != nil {
		return driver.Instance{}, ctx.Err()
	}
	return d.shims.recoverOne(ctx, uid)
}
