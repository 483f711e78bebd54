package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// resumeAttempts is how often one resume is tried on this host, if what went
// wrong may pass.
const resumeAttempts = 3

// resume restores a session from the snapshot that its op names. The record says
// running before the restored tree's first instruction: whoever loses that
// compare-and-swap has run nothing.
func (w *Worker) resume(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return w.resumeFailed(ctx, rec, err)
	}
	next, err := w.restore(ctx, rec, d)
	begun, asked := next.Rev != rec.Rev, rec
	rec = next
	switch {
	case err == nil:
		w.Log.Info("resumed", "session", rec.Name().String(), "boot", rec.Boot)
		if err := w.hasBegun(ctx, rec); err != nil {
			return err
		}
		return w.Failpoints.At(ctx, failpoint.ResumeDone)
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
		return w.takeBack(ctx, rec, asked, schemas.TResumed, err)
	case begun:
		return w.lost(ctx, rec, err)
	case neverBegun(rec) && errors.Is(err, image.ErrNotFound):
		return w.dropOrphan(ctx, rec)
	case driver.KindOf(err) == driver.Transient && transient(err) && rec.Op.Attempts < resumeAttempts:
		return err
	}
	return w.resumeFailed(ctx, rec, err)
}

// neverBegun reports whether a session is a fork that has not run yet.
func neverBegun(rec statekv.Versioned) bool {
	return rec.Generation == 0 && rec.Op.Boot == schemas.BootFork
}

// dropOrphan removes a fork that has nothing to begin from: its origin was deleted while it
// was made, and whoever asked for it was stopped before he could look.
func (w *Worker) dropOrphan(ctx context.Context, rec statekv.Versioned) error {
	op := schemas.NewOp(schemas.OpRemove, rec.Seq, time.Now())
	w.Log.Warn("removing a fork whose origin is gone", "session", rec.Name().String())
	_, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TRemove, Reason: "what it was forked from was deleted", Set: schemas.Set{Op: op}})
	return err
}

// transient reports whether trying the same image again may help.
func transient(err error) bool {
	for _, final := range []error{image.ErrCorrupt, image.ErrForged, image.ErrNoKey, image.ErrNotFound} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// restore gives the record as it stands after the swap to running, or rec if
// that wasn't made.
func (w *Worker) restore(ctx context.Context, rec statekv.Versioned, d driver.Driver) (statekv.Versioned, error) {
	began := time.Now()
	// What an earlier attempt, or the suspended tree, left here goes first.
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return rec, fmt.Errorf("remove what is left of session %s here: %w", rec.Name(), err)
	}
	if err := w.Failpoints.At(ctx, failpoint.ResumeCleared); err != nil {
		return rec, err
	}
	spec, err := w.spec(rec.SessionRecord)
	if err != nil {
		return rec, err
	}
	w.progress(rec.SessionRecord, began, "verify", 0)
	var size int64
	defer func() { giveBack(size) }() // after all of it is closed
	img, err := w.openImage(ctx, rec.SessionRecord, *rec.Op.Source)
	if err != nil {
		return rec, err
	}
	defer img.Close()
	header := img.Header()
	size = header.LogicalBytes
	opened := time.Since(began)
	if err := w.Failpoints.At(ctx, failpoint.ResumeOpened); err != nil {
		return rec, err
	}
	stop := w.progresses(rec.SessionRecord, began, "restore", img.Given, header.LogicalBytes)
	boot := rec.Op.Boot
	if boot == "" {
		boot = schemas.BootResume
	}
	out := rec
	restored, err := d.Restore(ctx, w.fence(rec.SessionRecord), spec, img, boot, func(ctx context.Context) error {
		ctx, done := beginning(ctx)
		defer done()
		if err := w.Failpoints.At(ctx, failpoint.ResumeRestored); err != nil {
			return err
		}
		next, err := w.swapOwned(ctx, rec, schemas.Transition{
			Type: schemas.TResumed, Reason: "restored from " + rec.Op.Source.Name,
			Set: schemas.Set{Op: cmp.Or(toProve(*rec.Op), toBegin(d, *rec.Op)), Size: &schemas.Sizes{
				At: header.Time, Logical: header.LogicalBytes, New: header.NewBytes, Stored: header.StoredBytes,
			}},
			Stages: restoreStages(img.Times(), opened, time.Since(began), header.LogicalBytes),
		})
		if err == nil {
			out = next
			err = w.Failpoints.At(ctx, failpoint.ResumeRecorded)
		}
		return err
	})
	stop()
	if err != nil {
		return out, err
	}
	w.progress(rec.SessionRecord, began, "running", header.LogicalBytes)
	w.Log.Info("restored", "session", rec.Name().String(), "way", restored.Way)
	w.loadPages(ctx, rec.SessionRecord, img)
	return out, nil
}

// restoreStages tells what a restore took: reading by its steps, each summed
// over the cores that shared it, and the whole by the clock.
func restoreStages(t image.ReadTimes, opened, total time.Duration, size int64) []schemas.Stage {
	return []schemas.Stage{
		{Name: "open", MS: opened.Milliseconds()},
		{Name: "fetch", MS: t.Fetch.Milliseconds()},
		{Name: "verify", MS: t.Verify.Milliseconds()},
		{Name: "decrypt", MS: t.Decrypt.Milliseconds()},
		{Name: "decompress", MS: t.Decompress.Milliseconds()},
		{Name: "restore", MS: total.Milliseconds(), Bytes: size},
	}
}

// openImage opens a snapshot for a session: its own, or the one it was forked
// from, whose lineage its name says.
func (w *Worker) openImage(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (*image.Reader, error) {
	lineage, err := lineageOf(r, head)
	if err != nil {
		return nil, err
	}
	expect := image.Expect{Tenant: r.Tenant, Lineage: lineage}
	if lineage == r.Lineage {
		expect.Session, expect.UID = r.Session, r.UID
	}
	if len(w.Identities) == 0 {
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("host %s writes images and has no identity that opens one: "+
			"resume session %s on a host that has one of its readers' (`diapause key ls`), or start `diapause up` here with --identity-file", w.Host, r.Name())}
	}
	img, err := image.Open(ctx, w.Images, head, image.ReadOptions{Identities: w.Identities, Trusted: w.trusts(ctx, r, head), Expect: expect})
	if err != nil {
		return nil, fmt.Errorf("open the image of session %s: %w", r.Name(), err)
	}
	return img, nil
}

func (w *Worker) resumeFailed(ctx context.Context, rec statekv.Versioned, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	if rec.Op.Fallback != nil {
		return w.fallBack(ctx, &rec, "it can't be restored: "+cause.Error())
	}
	w.Log.Error("resume failed; the image is kept", "session", rec.Name().String(), "err", cause)
	w.event(ctx, rec.SessionRecord, "resume_failed", "%s", cause)
	f := failure(schemas.OpResume, cause, rec.Op.Attempts)
	f.Tried = append(slices.Clone(rec.Op.Tried), w.Host)
	_, err := w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TResumeFailed, Reason: cause.Error(), Set: schemas.Set{Failure: f}})
	return err
}
