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
		next, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TStarted, Reason: "its command starts", Set: schemas.Set{Op: toBegin(d, *rec.Op)}})
		if err == nil {
			rec, begun = next, true
			err = w.Failpoints.At(ctx, failpoint.StartRecorded)
		}
		return err
	})
	switch {
	case err == nil:
		w.Log.Info("started", "session", rec.Name().String())
		if err := w.hasBegun(ctx, rec); err != nil {
			return err
		}
		return w.Failpoints.At(ctx, failpoint.StartDone)
	case errors.Is(err, statekv.ErrUnknown):
		w.unborn(rec, err)
		return err
	case errors.Is(err, driver.ErrNoLease):
		w.unborn(asked, err)
		return err
	case ctx.Err() != nil, errors.Is(err, errMoved):
		return err
	case begun && w.isHere(ctx, d, asked):
		return err // it runs all the same, and is looked at once more
	case begun && w.unheard(ctx, d, rec):
		w.unborn(asked, err) // if it turns out that it isn't here
		return err
	case begun && w.stillborn(ctx, d, asked, err):
		return w.takeBack(ctx, rec, asked, schemas.TStarted, err)
	case begun:
		return w.lost(ctx, rec, err)
	}
	return w.startFailed(ctx, rec, err)
}

func (w *Worker) startFailed(ctx context.Context, rec statekv.Versioned, cause error) error {
	w.Log.Error("start failed", "session", rec.Name().String(), "err", cause)
	_, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TStartFailed, Reason: cause.Error(), Set: schemas.Set{Failure: failure(schemas.OpStart, cause, 1)},
	})
	return err
}

// toBegin is what remains to be done when a session is recorded to run, by a driver that
// hears later whether it does; nil for others.
func toBegin(d driver.Driver, op schemas.Op) *schemas.Op {
	if l, ok := d.(driver.Late); !ok || !l.BeginsLate() {
		return nil
	}
	op.Kind, op.Attempts, op.Source = schemas.OpBegin, 0, nil
	return &op
}

// hasBegun records that what was recorded to run does, if its driver hears that late.
func (w *Worker) hasBegun(ctx context.Context, rec statekv.Versioned) error {
	if rec.Op == nil || rec.Op.Kind != schemas.OpBegin {
		return nil
	}
	_, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TProved, Reason: "its command was begun", Set: schemas.Set{Failure: rec.Failure}})
	return err
}

// unheard reports whether nobody can say now if a session runs whose start or restore failed,
// by a driver that says later that it does.
func (w *Worker) unheard(ctx context.Context, d driver.Driver, rec statekv.Versioned) bool {
	_, err := d.Inspect(ctx, rec.UID)
	return err != nil && !errors.Is(err, driver.ErrNotHere) && rec.Op != nil && rec.Op.Kind == schemas.OpBegin
}

// takeBack undoes the record of a session that could not be begun: it is tried once more if
// that may help, or else is what it was, with the failure.
func (w *Worker) takeBack(ctx context.Context, rec, asked statekv.Versioned, begun schemas.TransitionType, cause error) error {
	w.unborn(asked, cause)
	if driver.KindOf(cause) == driver.Transient && asked.Op.Attempts < resumeAttempts {
		return cause
	}
	if err := w.again(ctx, &rec, begun); err != nil {
		return err
	}
	if begun == schemas.TResumed {
		return w.resumeFailed(ctx, rec, cause)
	}
	return w.startFailed(ctx, rec, cause)
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
