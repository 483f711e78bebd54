package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/snapshots"
	"github.com/diapause/diapause/workers/turns"
)

// rewriter makes templates: it writes the snapshot that a template is made of once more, into a lineage of the template's own.
// A crash in between is no harm: the record says what is to be done until it is, and what was stored by then is in a lineage that
// is cleared first.
type rewriter struct {
	recorder    *recorder
	snapshots   *snapshots.Store
	interrupter *interrupter
	turns       *turns.Queue
	failpoints  *failpoint.Set
	log         *slog.Logger
}

// rewrite does the op of a template. One that can't be made is removed, with the reason in its log.
func (w *rewriter) rewrite(ctx context.Context, rec statekv.Versioned) error {
	began := time.Now()
	var out snapshots.Rewritten
	err := w.interrupter.run(ctx, rec, func(ctx context.Context) error {
		done, err := w.recorder.turn(ctx, w.turns, rec, driver.NewLaps(began))
		if err != nil {
			return err
		}
		defer done()
		out, err = w.write(ctx, rec, began)
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, errMoved):
		return err // the next worker of this host, or the record, says what becomes of it
	default:
		return w.giveUp(ctx, rec, err)
	}
	next, err := w.recorder.swap(ctx, rec, schemas.Transition{
		Type: schemas.TRewritten, Reason: "it has an image of its own", Set: schemas.Set{Head: &out.Head, Size: &out.Sizes},
		Stages: []schemas.Stage{{Name: "rewrite", MS: time.Since(began).Milliseconds(), Bytes: out.Sizes.Logical}},
	})
	if err != nil {
		return err
	}
	w.log.Info("template made", rec.Logged("stored", out.Sizes.Stored)...)
	w.snapshots.FollowReaders(ctx, next, out.Readers)
	return nil
}

// write writes the image, durable when it returns.
func (w *rewriter) write(ctx context.Context, rec statekv.Versioned, began time.Time) (out snapshots.Rewritten, err error) {
	if err := w.snapshots.Clear(ctx, rec.SessionRecord); err != nil {
		return out, err
	}
	stop := func() {}
	defer func() { stop() }()
	step := func(ctx context.Context, s image.Step) error {
		return w.failpoints.At(ctx, failpoint.Name("image."+string(s)))
	}
	out, err = w.snapshots.Rewrite(ctx, rec, *rec.Op.Source, step, func(so func() int64, of int64) {
		stop = w.recorder.progresses(rec.SessionRecord, began, "rewrite", so, of)
	})
	defer func() { giveBack(out.Sizes.Logical) }()
	return out, err
}

// giveUp removes a template that can't be made: nothing of it stays.
func (w *rewriter) giveUp(ctx context.Context, rec statekv.Versioned, cause error) error {
	w.log.Error("a template can't be made", rec.Logged("err", cause)...)
	f := failure(schemas.OpRewrite, cause, 1)
	op := schemas.NewOp(schemas.OpRemove, rec.Seq, time.Now())
	op.Shred = true
	_, err := w.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TRemove, Reason: f.Text, Set: schemas.Set{Op: op, Failure: f}})
	return err
}
