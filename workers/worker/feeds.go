package worker

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// consumeCommands wakes actors for the commands of this host. An error doesn't end it: records
// are watched too.
func (w *Worker) consumeCommands(ctx context.Context) error {
	for {
		err := w.Bus.Commands(ctx, w.Host, w.actors.wake)
		if ctx.Err() != nil {
			return nil
		}
		w.Log.Warn("could not read commands; trying again", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// watchRecords tells ops under way of new revisions, and wakes the actors of records that ask
// this host for something, so that a lost command costs nothing.
func (w *Worker) watchRecords(ctx context.Context) error {
	return w.Records.Watch(ctx, func(v statekv.Versioned) {
		w.interrupter.revised(v)
		w.retained.follow(v)
		w.hosting.follow(ctx, v)
		w.remover.release(v.Name().String())
		if v.Host == w.Host && v.Op != nil && v.Op.Claim == "" {
			w.actors.wake(v.Name())
		}
	}, func() {})
}

// followRecords keeps the records of all sessions in the ledger.
func (w *Worker) followRecords(ctx context.Context) error {
	return w.Records.Watch(ctx, func(v statekv.Versioned) {
		w.recorder.remember(v.SessionRecord)
		w.rebuilder.See(v)
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
			w.Log.Info("ended", "session", i.Name.String(), "driver", name, "epoch", i.Epoch)
			w.actors.wake(i.Name)
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep looks at every record of this host at a fixed interval, and announces the host.
func (w *Worker) sweep(ctx context.Context) error {
	for tick := time.NewTicker(w.Sweep); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if err := w.announcer.announce(ctx, w.sensor.Count()); err != nil && ctx.Err() == nil {
			w.Log.Warn("could not announce the host", "err", err)
		}
		w.retained.find()
		if err := w.wakeAll(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("sweep failed", "err", err)
		}
	}
}
