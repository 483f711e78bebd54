package worker

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// consumeCommands wakes actors for the commands of this host. What breaks its
// reading is no reason to end: records are watched too.
func (w *Worker) consumeCommands(ctx context.Context) error {
	for {
		err := w.Bus.Commands(ctx, w.Host, w.actors.wake)
		if ctx.Err() != nil {
			return nil
		}
		w.Log.Warn("commands can't be read; trying again", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// watchRecords tells ops under way of new revisions, and wakes the actors of
// records that ask this host for something, so that a lost command costs
// nothing.
func (w *Worker) watchRecords(ctx context.Context) error {
	return w.Records.Watch(ctx, func(v statekv.Versioned) {
		w.mu.Lock()
		fn := w.undoing[v.Name()]
		w.mu.Unlock()
		if fn != nil {
			fn(v)
		}
		w.follow(ctx, v)
		w.letGo(v.Name().String())
		if v.Host == w.Host && v.Op != nil && v.Op.Claim == "" {
			w.actors.wake(v.Name())
		}
	}, func() {})
}

func (w *Worker) watchExits(ctx context.Context, name schemas.DriverName, d driver.Watcher) error {
	exits := d.Exits(ctx)
	for {
		select {
		case i, ok := <-exits:
			if !ok {
				return nil
			}
			w.Log.Info("ended", "session", i.Name.String(), "driver", name)
			w.actors.wake(i.Name)
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep looks at every record of this host now and then, and says that the host
// is there.
func (w *Worker) sweep(ctx context.Context) error {
	for tick := time.NewTicker(w.Sweep); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if err := w.announce(ctx, w.observedCount()); err != nil && ctx.Err() == nil {
			w.Log.Warn("host not announced", "err", err)
		}
		w.findKept()
		if err := w.wakeAll(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("sweep failed", "err", err)
		}
	}
}
