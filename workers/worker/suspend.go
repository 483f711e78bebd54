package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// taken is a capture whose image is durable.
type taken struct {
	head   schemas.Head
	sizes  schemas.Sizes
	stages []schemas.Stage
	warn   []string

	way    driver.Way
	whyWay string

	readers image.Readers // as they were when the image was begun

	stored bool // the image may be durable, although there was an error
}

// capture suspends a session or takes a checkpoint of it. The tree is frozen
// while its image is written; it is killed only by reap, after the record points
// at the durable image, and runs on after any failure.
func (w *Worker) capture(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return w.captureFailed(ctx, rec, nil, driver.Fence{}, false, err)
	}
	if rec.Spec == "" {
		return w.captureFailed(ctx, rec, nil, driver.Fence{}, false, &driver.Error{Kind: driver.Refused,
			Text: "how it was started was lost with the records: once suspended it could not be resumed"})
	}
	fence := w.fence(rec.SessionRecord)
	// What froze it was interrupted, and this op is ours since: hooks and the
	// preflight want it running.
	if i, err := d.Inspect(ctx, rec.UID); err == nil && i.State == driver.Frozen {
		if i.Fenced {
			if err := w.goOn(ctx, &rec); err != nil {
				return err
			}
		}
		if err := w.thaw(ctx, d, fence); err != nil {
			return err
		}
	}
	var img taken
	defer func() { giveBack(img.sizes.Logical) }()
	err = w.guarded(ctx, rec, func(ctx context.Context) error {
		img, err = w.writeImage(ctx, rec, d)
		return err
	})
	if err != nil {
		return w.captureFailed(ctx, rec, d, fence, img.stored, err)
	}
	for _, text := range img.warn {
		w.event(ctx, rec.SessionRecord, "warning", "%s", text)
	}
	if rec.Op.Kind == schemas.OpCheckpoint {
		return w.checkpointed(ctx, rec, d, fence, img)
	}
	reap := *rec.Op
	reap.Kind = schemas.OpReap
	next, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TSuspended, Reason: reasonOf(rec), Stages: img.stages,
		Set: schemas.Set{Head: &img.head, Size: &img.sizes, Op: &reap},
	})
	if err != nil {
		// Refused, or not known: whoever moved the record decides what becomes
		// of the frozen tree, when it is read again.
		return err
	}
	w.Log.Info("suspended", "session", rec.Name().String(), "stored", img.sizes.Stored, "way", img.way, "because", img.whyWay)
	err = w.Failpoints.At(ctx, failpoint.SuspendRecorded)
	if err == nil {
		err = w.reap(ctx, next)
	}
	w.followReaders(ctx, next, img.readers)
	return err
}

func reasonOf(rec statekv.Versioned) string {
	if rec.Op.Trigger != "" {
		return rec.Op.Trigger
	}
	return "its image is durable"
}

// writeImage freezes the session and writes its image, whole and durable. The
// session is left frozen.
func (w *Worker) writeImage(ctx context.Context, rec statekv.Versioned, d driver.Driver) (taken, error) {
	began := time.Now()
	fp, err := d.Fingerprint(ctx)
	if err != nil {
		return taken{}, err
	}
	if err := w.maySign(ctx, rec.Tenant); err != nil {
		return taken{}, err
	}
	to, err := w.readers(ctx, rec.Tenant)
	if err != nil {
		return taken{}, fmt.Errorf("begin image of %s: %w", rec.Name(), err)
	}
	early, _ := d.(driver.Early)
	img, err := image.Create(ctx, w.Images, image.WriteOptions{
		Tenant: rec.Tenant, Session: rec.Session, UID: rec.UID, Lineage: rec.Lineage, Epoch: rec.Epoch, Seq: rec.Version,
		Parent: rec.Head, Base: w.baseFor(ctx, rec.SessionRecord), Budget: w.Budget, Dense: w.Dense || early != nil && early.StoresEarly(),
		Recipients: to.Recipients, KeyVersion: to.Version, KeyGeneration: to.Generation, FullSince: to.FullSince,
		Signer: w.Signer, SignerName: w.Host, Trigger: rec.Op.Trigger, RunID: rec.Op.RunID, Description: rec.Op.Description,
		Op: rec.Op.ID, Fingerprint: fp, Time: began, Step: w.imageStep,
	})
	if err != nil {
		return taken{}, fmt.Errorf("begin image of %s: %w", rec.Name(), err)
	}
	err = carry(img, rec.SessionRecord, began)
	if err == nil {
		err = w.Failpoints.At(ctx, failpoint.CaptureBegun)
	}
	if err != nil {
		img.Abort()
		return taken{}, err
	}
	stop := w.progresses(rec.SessionRecord, began, "capture", img.Taken, 0)
	got, err := d.Capture(ctx, fenceOf(rec.SessionRecord), img)
	stop()
	if err == nil {
		err = w.Failpoints.At(ctx, failpoint.CaptureTaken)
	}
	if err != nil {
		img.Abort()
		return taken{}, err
	}
	w.progress(rec.SessionRecord, began, "store", 0)
	head, header, stats, err := img.Commit(ctx)
	if err != nil {
		img.Abort()
		return taken{stored: true}, fmt.Errorf("store image of %s: %w", rec.Name(), err)
	}
	w.progress(rec.SessionRecord, began, "durable", stats.StoredBytes)
	w.setBase(rec.UID, head, img.Base())
	if err := w.Failpoints.At(ctx, failpoint.CaptureDurable); err != nil {
		return taken{stored: true}, err
	}
	return taken{
		head:  head,
		sizes: schemas.Sizes{At: header.Time, Logical: header.LogicalBytes, New: header.NewBytes, Stored: header.StoredBytes},
		warn:  got.Warnings,
		way:   got.Way, whyWay: got.WhyWay, readers: to,
		stages: append([]schemas.Stage{
			{Name: "freeze", MS: got.FreezeTook.Milliseconds()},
			{Name: "capture", MS: got.CaptureTook.Milliseconds(), Bytes: stats.LogicalBytes},
			{Name: "compress", MS: stats.Compress.Milliseconds(), Bytes: stats.NewBytes},
			{Name: "encrypt", MS: stats.Encrypt.Milliseconds()},
			{Name: "store", MS: stats.Store.Milliseconds(), Bytes: stats.StoredBytes},
			{Name: "frozen", MS: time.Since(got.Frozen).Milliseconds()},
			{Name: "durable", MS: time.Since(began).Milliseconds(), Bytes: stats.StoredBytes},
		}, wayStages(got)...),
	}, nil
}

// imageStep tells of a step of writing an image.
func (w *Worker) imageStep(ctx context.Context, s image.Step) error {
	return w.Failpoints.At(ctx, failpoint.Name("image."+string(s)))
}

// wayStages says how the memory went into the image, as "memory" or "stream", with
// what of the image was held in memory beside the session. A driver that has but one
// way says none.
func wayStages(c driver.Captured) []schemas.Stage {
	if c.Way == "" {
		return nil
	}
	return []schemas.Stage{{Name: string(c.Way), MS: c.CaptureTook.Milliseconds(), Bytes: c.Held}}
}

// captureFailed lets the session run on and says why it wasn't captured. If its image
// may be durable (stored), the record comes before the thaw: should this host be thought
// lost, others go on from that image.
func (w *Worker) captureFailed(ctx context.Context, rec statekv.Versioned, d driver.Driver, fence driver.Fence, stored bool, cause error) error {
	if ctx.Err() != nil || errors.Is(cause, statekv.ErrUnknown) {
		return cause // stopping: the next worker on this host finds it frozen, and the record as it is
	}
	if errors.Is(cause, errMoved) {
		return cause // what the record says now decides, reconcile thaws if it says running
	}
	if d != nil {
		if i, err := d.Inspect(ctx, rec.UID); err == nil && i.State == driver.Exited {
			return w.ended(ctx, d, &rec, i) // that is why, and nothing runs on
		}
	}
	var frozen error // the record comes all the same, and then the thaw is tried again
	if d != nil && !stored {
		frozen = w.runOn(ctx, d, fence)
	}
	if err := w.Failpoints.At(ctx, failpoint.AbortThawed); err != nil {
		return err
	}
	next, err := w.swapOwned(ctx, rec, w.whyNot(ctx, rec, cause))
	if err != nil {
		return err
	}
	w.alert(ctx, rec.SessionRecord, next.SessionRecord)
	if d != nil && stored {
		frozen = w.thaw(ctx, d, fence)
	}
	if err := w.Failpoints.At(ctx, failpoint.AbortRecorded); err != nil {
		return err
	}
	return frozen
}

// whyNot is the transition of a capture that came to nothing.
func (w *Worker) whyNot(ctx context.Context, rec statekv.Versioned, cause error) schemas.Transition {
	var u undone
	if errors.As(cause, &u) {
		return schemas.Transition{Type: schemas.TSuspendAborted, Reason: u.Error(), Evidence: u.evidence()}
	}
	kind, t := schemas.OpSuspend, schemas.TSuspendFailed
	if rec.Op.Kind == schemas.OpCheckpoint {
		kind, t = schemas.OpCheckpoint, schemas.TCheckpointFailed
	}
	count := 1
	if f := rec.Failure; f != nil && f.Op == kind {
		count += f.Count
	}
	w.event(ctx, rec.SessionRecord, "capture_failed", "%s (%d in a row)", cause, count)
	f := failure(kind, cause, count)
	if kind == schemas.OpSuspend {
		f.Open, f.Seq = count >= w.policyOf(rec.SessionRecord).Breaker, heardUpTo(rec)
	}
	return schemas.Transition{Type: t, Reason: cause.Error(), Set: schemas.Set{Failure: f}}
}

// alert says, once, that the breaker has opened.
func (w *Worker) alert(ctx context.Context, before, after schemas.SessionRecord) {
	f, was := after.Failure, before.Failure
	if f != nil && f.Open && (was == nil || !was.Open) {
		what := "it runs on, and isn't suspended for idleness before `diapause suspend` works, or `suspend --reset`"
		if w.onBreaker(after) == schemas.BreakerStop {
			what = "it is stopped as soon as it isn't in use, as --on-suspend-failure or its policy says"
		}
		w.event(ctx, after, "breaker_open", "%d suspends in a row failed; %s: %s", f.Count, what, f.Text)
	}
}

func (w *Worker) checkpointed(ctx context.Context, rec statekv.Versioned, d driver.Driver, fence driver.Fence, img taken) error {
	frozen := w.thaw(ctx, d, fence)
	if err := w.Failpoints.At(ctx, failpoint.CheckpointThawed); err != nil {
		return err
	}
	next, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TCheckpointed, Reason: reasonOf(rec), Stages: img.stages, Set: schemas.Set{Head: &img.head, Size: &img.sizes},
	})
	if err != nil {
		return err
	}
	w.followReaders(ctx, next, img.readers)
	if err := w.Failpoints.At(ctx, failpoint.CheckpointRecorded); err != nil {
		return err
	}
	return frozen // the next look at the record tries again
}

// reap kills what an image has replaced, unless activity came since: then the
// frozen tree runs on, which takes a thaw and no resume.
func (w *Worker) reap(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return err
	}
	revived, err := w.revive(ctx, rec, d)
	if revived || err != nil {
		return err
	}
	if err := w.Failpoints.At(ctx, failpoint.ReapHeard); err != nil {
		return err
	}
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return fmt.Errorf("remove the frozen processes of suspended session %s: %w", rec.Name(), err)
	}
	if err := w.Failpoints.At(ctx, failpoint.ReapKilled); err != nil {
		return err
	}
	_, err = w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TReaped, Reason: "its processes are gone, its image stays"})
	if err != nil {
		return err
	}
	return w.Failpoints.At(ctx, failpoint.ReapRecorded)
}

// revive undoes a suspend that is recorded already, if the tree is still there
// and activity came.
func (w *Worker) revive(ctx context.Context, rec statekv.Versioned, d driver.Driver) (bool, error) {
	if i, err := d.Inspect(ctx, rec.UID); errors.Is(err, driver.ErrNotHere) || i.State == driver.Exited {
		return false, nil
	} else if err != nil {
		return false, err
	}
	late, err := w.Bus.Since(ctx, rec.Name(), heardUpTo(rec))
	if err != nil {
		return false, err
	}
	policy := w.policyOf(rec.SessionRecord)
	for _, m := range late {
		if !session.Undoes(*rec.Op, m.Source, m.Activity, policy) {
			continue
		}
		u, fence := undone{m}, w.fence(rec.SessionRecord)
		next, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TRevived, Reason: u.Error(), Evidence: u.evidence()})
		if err != nil {
			return false, err
		}
		if err := w.Failpoints.At(ctx, failpoint.ReviveRecorded); err != nil {
			return true, err
		}
		fence.Epoch = next.Epoch
		return true, d.Thaw(ctx, fence)
	}
	return false, nil
}
