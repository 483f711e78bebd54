package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// resumeAttempts is how often one resume is tried on this host, if its error may pass.
const resumeAttempts = 3

// resume restores a session from the snapshot that its op names. The record says running
// before the restored tree's first instruction: a host that loses that compare-and-swap has
// executed nothing.
func (s *starter) resume(ctx context.Context, rec statekv.Versioned) error {
	d, err := s.drivers.toRun(rec.SessionRecord)
	if err != nil {
		return s.resumeFailed(ctx, rec, err)
	}
	a := attempt{driver: d, asked: rec, rec: rec, runs: schemas.TResumed}
	laps, done := driver.NewLaps(time.Now()), func() {}
	err = s.interrupter.run(ctx, rec, func(ctx context.Context) (err error) {
		done, err = s.recorder.turn(ctx, s.turns, rec, laps)
		return err
	})
	if err == nil {
		a.rec, err = s.restore(ctx, rec, d, laps)
		done()
	}
	ran, err := s.settle(ctx, a, err)
	if err != nil || !ran {
		return err
	}
	return s.failpoints.At(ctx, failpoint.ResumeDone)
}

// unusedFork reports whether a session is a fork that has not run yet.
func unusedFork(rec statekv.Versioned) bool {
	return rec.Generation == 0 && rec.Op.Boot == schemas.BootFork
}

// removeOrphan removes a fork that has no snapshot to start from: its origin was deleted while
// the fork was made, and the API server that made it stopped before it could check.
func (s *starter) removeOrphan(ctx context.Context, rec statekv.Versioned) error {
	op := schemas.NewOp(schemas.OpRemove, rec.Seq, time.Now())
	s.log.Warn("removing a fork whose origin is gone", rec.Logged()...)
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TRemove, Reason: "what it was forked from was deleted", Set: schemas.Set{Op: op}})
	return err
}

// mayPass reports whether trying the same image again may help.
func mayPass(err error) bool {
	for _, final := range []error{image.ErrCorrupt, image.ErrForged, image.ErrNoKey, image.ErrNotFound} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// restore restores a session and gives its record after the swap to running, or rec if that
// wasn't made.
func (s *starter) restore(ctx context.Context, rec statekv.Versioned, d driver.Driver, laps *driver.Laps) (statekv.Versioned, error) {
	began := time.Now()
	// What an earlier attempt, or the suspended tree, left here is removed first.
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return rec, fmt.Errorf("remove what is left of session %s here: %w", rec.Name(), err)
	}
	if err := s.failpoints.At(ctx, failpoint.ResumeCleared); err != nil {
		return rec, err
	}
	laps.Mark("clear")
	spec, err := s.snapshots.Spec(rec.SessionRecord)
	if err != nil {
		return rec, err
	}
	s.recorder.progress(rec.SessionRecord, began, "verify", 0)
	var size int64
	defer func() { giveBack(size) }() // after the image is closed
	img, err := s.snapshots.Open(ctx, rec.SessionRecord, *rec.Op.Source)
	if err != nil {
		return rec, err
	}
	defer img.Close()
	header := img.Header()
	if err := s.readable(ctx, header, d); err != nil {
		return rec, err
	}
	size = header.LogicalBytes
	laps.Mark("open")
	if err := s.failpoints.At(ctx, failpoint.ResumeOpened); err != nil {
		return rec, err
	}
	stop := s.recorder.progresses(rec.SessionRecord, began, "restore", img.Given, header.LogicalBytes)
	fence, release := s.recordedFence(ctx, d, rec.SessionRecord, spec, img)
	defer release()
	op, arrived := cmp.Or(toProve(*rec.Op), toBegin(d, *rec.Op)), func(int) {}
	out := rec
	restored, err := d.Restore(driver.WithLaps(ctx, laps), fence, spec, img, cmp.Or(rec.Op.Boot, schemas.BootResume), func(ctx context.Context) error {
		advice := append(advised(d, spec), driver.WarningsOf(ctx)...)
		ctx, done := beginning(ctx)
		defer done()
		if err := s.failpoints.At(ctx, failpoint.ResumeRestored); err != nil {
			return err
		}
		if op == nil || op.Kind != schemas.OpBegin { // else the record says later that it runs
			arrived = s.sensor.Arriving(rec)
		}
		next, err := s.recorder.swap(ctx, rec, schemas.Transition{
			Type: schemas.TResumed, Reason: "restored from " + rec.Op.Source.Name,
			Set: schemas.Set{Op: op, Root: s.root(d, rec), Warnings: readvised(rec.Warnings, advice), Size: &schemas.Sizes{
				At: header.Time, Logical: header.LogicalBytes, New: header.NewBytes, Stored: header.StoredBytes,
			}},
			Stages: restoreStages(laps, img.Times(), img.Given(), header.LogicalBytes),
		})
		if err == nil {
			out = next
			err = s.failpoints.At(ctx, failpoint.ResumeRecorded)
		}
		return err
	})
	stop()
	arrived(restored.PID)
	if err != nil {
		return out, err
	}
	s.recorder.progress(rec.SessionRecord, began, "running", header.LogicalBytes)
	s.log.Info("restored", rec.Logged("way", restored.Way)...)
	s.snapshots.KeepPages(ctx, rec.SessionRecord, img)
	return out, nil
}

// readable refuses an image that needs what this version doesn't know.
func (s *starter) readable(ctx context.Context, need schemas.ImageHeader, d driver.Driver) error {
	have, err := d.Fingerprint(ctx)
	if err != nil {
		return err
	}
	if lacks := unreadable(need.Fingerprint, have); len(lacks) > 0 {
		return &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("host %s is too old for the image: it lacks %s", s.drivers.host, strings.Join(lacks, ", ")),
			Hint: "update Diapause on that host, or resume the session on another one",
		}
	}
	return nil
}

// readvised adds what a resume has to tell to what its suspend told, which would be replaced; nil
// leaves that.
func readvised(told, advice []schemas.Warning) []schemas.Warning {
	if len(advice) == 0 {
		return nil
	}
	told = slices.DeleteFunc(slices.Clone(told), func(w schemas.Warning) bool {
		return slices.ContainsFunc(advice, func(a schemas.Warning) bool { return a.Code == w.Code })
	})
	return append(told, advice...)
}

// restoreStages gives what the steps of a restore took, which end now, and those of reading the
// image beside them, summed over all cores. again is what had to be decoded more than once.
func restoreStages(laps *driver.Laps, t image.ReadTimes, decoded, size int64) []schemas.Stage {
	laps.Mark("start")
	all := append(laps.Stages(), []schemas.Stage{
		{Name: "fetch", MS: t.Fetch.Milliseconds()},
		{Name: "verify", MS: t.Verify.Milliseconds()},
		{Name: "decrypt", MS: t.Decrypt.Milliseconds()},
		{Name: "decompress", MS: t.Decompress.Milliseconds(), Bytes: decoded},
	}...)
	if t.Again > 0 {
		all = append(all, schemas.Stage{Name: "again", Bytes: t.Again})
	}
	return append(all, schemas.Stage{Name: "restore", MS: laps.Total().Milliseconds(), Bytes: size})
}

func (s *starter) resumeFailed(ctx context.Context, rec statekv.Versioned, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	if rec.Op.Fallback != nil {
		return s.fallBack(ctx, &rec, "it can't be restored: "+cause.Error())
	}
	if m := rec.Op.Move; m != nil && m.To == s.drivers.host {
		return s.moveBack(ctx, rec, cause)
	}
	s.log.Error("resume failed; the image is kept", rec.Logged("err", cause)...)
	s.recorder.event(ctx, rec.SessionRecord, "resume_failed", "%s", cause)
	f := s.resumeFailure(ctx, rec.SessionRecord, cause)
	f.Tried = append(slices.Clone(rec.Op.Tried), s.drivers.host)
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TResumeFailed, Reason: f.Text, Set: schemas.Set{Failure: f}})
	return err
}

// moveBack has a session that can't be resumed here go on where it was before its move, in the one
// swap that says that it failed here: no other part is needed for that. One that was suspended
// there may go on wherever its placement allows.
func (s *starter) moveBack(ctx context.Context, rec statekv.Versioned, cause error) error {
	from := rec.Op.Move.From
	s.log.Error("move failed; it goes on where it was", rec.Logged("host", from, "err", cause)...)
	s.recorder.event(ctx, rec.SessionRecord, "move_failed", "%s", cause)
	f := failure(schemas.OpMove, cause, rec.Op.Attempts)
	f.Tried = append(slices.Clone(rec.Op.Tried), s.drivers.host)
	op := again(*rec.Op, time.Now())
	op.Move, op.Tried, op.Unplaced = nil, f.Tried, rec.Op.Move.Asleep
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{
		Type: schemas.TMovedBack, Reason: fmt.Sprintf("host %s can't resume it, it goes on where it was: %s", s.drivers.host, f.Text),
		Set: schemas.Set{Host: from, Op: &op, Failure: f},
	})
	return err
}
