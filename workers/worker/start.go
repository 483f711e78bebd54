package worker

import (
	"context"
	"errors"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// start runs the session's command for the first time, or anew. The record says
// running before the command's first instruction.
func (w *Worker) start(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return w.startFailed(ctx, rec, err)
	}
	spec, err := w.spec(rec.SessionRecord)
	if err != nil {
		return w.startFailed(ctx, rec, err)
	}
	begun, asked := false, rec
	_, err = d.Start(ctx, w.fence(rec.SessionRecord), spec, func(ctx context.Context) error {
		ctx, done := beginning(ctx)
		defer done()
		if err := w.Failpoints.At(ctx, failpoint.StartReady); err != nil {
			return err
		}
		next, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TStarted, Reason: "its command starts"})
		if err == nil {
			rec, begun = next, true
			err = w.Failpoints.At(ctx, failpoint.StartRecorded)
		}
		return err
	})
	switch {
	case err == nil:
		w.Log.Info("started", "session", rec.Name().String())
		return w.Failpoints.At(ctx, failpoint.StartDone)
	case errors.Is(err, statekv.ErrUnknown):
		w.unborn(rec)
		return err
	case errors.Is(err, driver.ErrNoLease):
		w.unborn(asked)
		return err
	case ctx.Err() != nil, errors.Is(err, errMoved):
		return err
	case begun && w.isHere(ctx, d, asked):
		return err // it runs all the same, and is looked at once more
	case begun && w.stillborn(ctx, d, asked, err):
		w.unborn(asked)
		return err
	case begun:
		return w.lost(ctx, rec, err)
	}
	return w.startFailed(ctx, rec, err)
}

func (w *Worker) startFailed(ctx context.Context, rec statekv.Versioned, cause error) error {
	_, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TStartFailed, Reason: cause.Error(), Set: schemas.Set{Failure: failure(schemas.OpStart, cause, 1)},
	})
	return err
}

// lost records that a session that should be on this host isn't.
func (w *Worker) lost(ctx context.Context, rec statekv.Versioned, cause error) error {
	if toBeProved(rec.SessionRecord) {
		return w.fallBack(ctx, &rec, cause.Error())
	}
	w.Log.Error("lost", "session", rec.Name().String(), "err", cause)
	_, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TLost, Reason: cause.Error(), Set: schemas.Set{Failure: failure(string(rec.State), cause, 1)},
	})
	return err
}
