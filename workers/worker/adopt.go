package worker

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// recover brings what the host has and what the records say together when the worker starts.
// The sessions' actors undo or repeat what was half done.
func (w *Worker) recover(ctx context.Context) error {
	all, err := w.inventory.all(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := w.adopt(ctx, f.driver, f.Instance); err != nil {
			return err
		}
	}
	if err := w.snapshots.ForgetUnknown(ctx); err != nil {
		return err
	}
	w.retained.find()
	return w.wakeAll(ctx)
}

// adoptWait bounds the removal of one session when the worker starts: it may hang.
const adoptWait = 30 * time.Second

// adopt decides about one instance that was found on the host: it is kept if its record knows
// it, and removed if the record doesn't and has no lower epoch. An instance that is later than
// its record is never removed: then the records have gone back.
func (w *Worker) adopt(ctx context.Context, d driver.Driver, i driver.Instance) error {
	rec, err := w.Records.Get(ctx, i.Name)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return err
	}
	switch {
	case err != nil || i.Epoch > rec.Epoch:
		w.Log.Error("left a session alone that is later than its record: the records have gone back",
			"session", i.Name.String(), "uid", i.UID, "epoch", i.Epoch, "recorded", rec.Epoch)
		return nil
	case rec.UID == i.UID && rec.Host == w.Host && (rec.State != schemas.Deleted || rec.Op != nil):
		w.Log.Info("found", rec.Logged("state", i.State, "record", rec.State)...)
		return nil
	}
	w.Log.Warn("removing what the record no longer mentions", "session", i.Name.String(), "uid", i.UID, "epoch", i.Epoch, "recorded", rec.Epoch)
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	if err := d.Stop(ctx, driver.Fence{UID: i.UID, Name: i.Name, Epoch: i.Epoch}); err != nil {
		// The other sessions must be found all the same.
		w.Log.Error("could not remove what the record no longer mentions", "session", i.Name.String(), "uid", i.UID, "epoch", i.Epoch, "err", err)
	}
	return nil
}

// wakeAll wakes the actor of each record of this host.
func (w *Worker) wakeAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return w.Records.Watch(ctx, func(v statekv.Versioned) {
		if v.Host == w.Host && (v.State != schemas.Deleted || v.Op != nil) {
			w.actors.wake(v.Name())
		}
	}, stop)
}
