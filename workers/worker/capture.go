package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/snapshots"
	"github.com/diapause/diapause/workers/turns"
)

// capturer takes snapshots of sessions and suspends them.
type capturer struct {
	drivers     drivers
	hosting     *hosting
	bus         Bus
	recorder    *recorder
	snapshots   *snapshots.Store
	recordings  *recordings.Spool
	interrupter *interrupter
	ending      *ending
	turns       *turns.Queue
	policy      func(schemas.SessionRecord) session.Policy
	failpoints  *failpoint.Set
	log         *slog.Logger
}

// taken is a capture whose image is durable.
type taken struct {
	head   schemas.Head
	sizes  schemas.Sizes
	stages []schemas.Stage
	warn   []schemas.Warning

	way    driver.Way
	whyWay string

	readers image.Readers // as they were when the capture began

	stored bool // the image may be durable, although there was an error
}

// capture suspends a session or takes a checkpoint of it. The tree is frozen while its image is
// written. Only reap kills it, after the record points at the durable image; after any failure
// it runs on.
func (c *capturer) capture(ctx context.Context, rec statekv.Versioned) error {
	laps := driver.NewLaps(time.Now())
	d, err := c.drivers.of(rec.SessionRecord)
	if err != nil {
		return c.captureFailed(ctx, rec, nil, driver.Fence{}, false, err)
	}
	if rec.Spec == "" {
		return c.captureFailed(ctx, rec, nil, driver.Fence{}, false, &driver.Error{Kind: driver.Refused,
			Text: "it could not be resumed: its spec was lost with the records"})
	}
	fence := c.hosting.fence(rec.SessionRecord)
	// An earlier capture froze it and was interrupted. Hooks and the preflight need it
	// running.
	if i, err := d.Inspect(ctx, rec.UID); err == nil && i.State == driver.Frozen {
		if i.Fenced {
			if err := c.recorder.goOn(ctx, &rec); err != nil {
				return err
			}
		}
		if err := thaw(ctx, d, fence); err != nil {
			return err
		}
	}
	var img taken
	defer func() { giveBack(img.sizes.Logical) }()
	err = c.interrupter.run(ctx, rec, func(ctx context.Context) error {
		img, err = c.writeImage(ctx, rec, d, laps)
		return err
	})
	if err != nil {
		return c.captureFailed(ctx, rec, d, fence, img.stored, err)
	}
	for _, w := range img.warn {
		c.recorder.event(ctx, rec.SessionRecord, "warning", "%s", w.Text)
	}
	if rec.Op.Kind == schemas.OpCheckpoint {
		return c.checkpointed(ctx, rec, d, fence, img)
	}
	reap := *rec.Op
	reap.Kind = schemas.OpReap
	next, err := c.recorder.swap(ctx, rec, schemas.Transition{
		Type: schemas.TSuspended, Reason: reasonOf(rec), Stages: img.stages,
		Set: schemas.Set{Head: &img.head, Size: &img.sizes, Op: &reap, Warnings: img.warn},
	})
	if err != nil {
		// Refused, or not known: the record, when it is read again, decides what
		// becomes of the frozen tree.
		return err
	}
	c.log.Info("suspended", rec.Logged("stored", img.sizes.Stored, "way", img.way, "because", img.whyWay)...)
	err = c.failpoints.At(ctx, failpoint.SuspendRecorded)
	if err == nil {
		err = c.reap(ctx, next)
	}
	c.snapshots.FollowReaders(ctx, next, img.readers)
	return err
}

func reasonOf(rec statekv.Versioned) string {
	if rec.Op.Trigger != "" {
		return rec.Op.Trigger
	}
	return "its image is durable"
}

// writeImage freezes the session and writes its image, complete and durable. The session is
// left frozen.
func (c *capturer) writeImage(ctx context.Context, rec statekv.Versioned, d driver.Driver, laps *driver.Laps) (taken, error) {
	done, err := c.recorder.turn(ctx, c.turns, rec, laps)
	if err != nil {
		return taken{}, err
	}
	defer done()
	began := time.Now()
	fp, err := d.Fingerprint(ctx)
	if err != nil {
		return taken{}, err
	}
	early, _ := d.(driver.Early)
	img, readers, err := c.snapshots.Create(ctx, rec, snapshots.Image{
		Fingerprint: fp, Time: began, Dense: early != nil && early.StoresEarly(), Step: c.imageStep,
	})
	if err != nil {
		return taken{}, err
	}
	if err := c.failpoints.At(ctx, failpoint.CaptureStarts); err != nil {
		img.Abort()
		return taken{}, err
	}
	if _, err := c.recordings.Store(ctx, rec.UID); err != nil { // while it runs: what is left then is little
		c.log.Debug("could not store a recording before a capture", rec.Logged("err", err)...)
	}
	stop := c.recorder.progresses(rec.SessionRecord, began, "capture", img.Taken, 0)
	laps.Mark("prepare")
	got, err := c.captureInto(driver.WithLaps(ctx, laps), rec, d, img)
	laps.Mark("capture")
	stop()
	if err == nil {
		err = addEnd(ctx, c.recordings, rec.SessionRecord, img, began)
	}
	if err == nil {
		err = c.failpoints.At(ctx, failpoint.CaptureTaken)
	}
	if err != nil {
		img.Abort()
		return taken{}, err
	}
	c.recorder.progress(rec.SessionRecord, began, "store", 0)
	head, header, stats, err := img.Commit(ctx)
	if err != nil {
		img.Abort()
		return taken{stored: true}, fmt.Errorf("store image of %s: %w", rec.Name(), err)
	}
	c.recorder.progress(rec.SessionRecord, began, "durable", stats.StoredBytes)
	c.snapshots.Keep(rec.UID, head, img.Base())
	if err := c.failpoints.At(ctx, failpoint.CaptureDurable); err != nil {
		return taken{stored: true}, err
	}
	return taken{
		head:  head,
		sizes: schemas.Sizes{At: header.Time, Logical: header.LogicalBytes, New: header.NewBytes, Stored: header.StoredBytes},
		warn:  stamped(worthTelling(got.Warnings, *rec.Op), header.Time),
		way:   got.Way, whyWay: got.WhyWay, readers: readers,
		stages: captureStages(laps, got, stats),
	}, nil
}

// worthTelling leaves out what no longer matters of a session that doesn't run on.
func worthTelling(all []schemas.Warning, op schemas.Op) []schemas.Warning {
	return slices.DeleteFunc(all, func(w schemas.Warning) bool { return w.Code == schemas.WarnHealth && op.Kind == schemas.OpSuspend })
}

// captureInto captures a session. A suspend is rehearsed, if the policy says so: what a
// checkpoint was made of runs on.
func (c *capturer) captureInto(ctx context.Context, rec statekv.Versioned, d driver.Driver, sink driver.Sink) (driver.Captured, error) {
	fence, which := fenceOf(rec.SessionRecord), c.policy(rec.SessionRecord).Rehearse
	if r, ok := d.(driver.Rehearser); ok && rec.Op.Kind == schemas.OpSuspend && which != schemas.RehearseNever {
		return r.CaptureRehearsed(ctx, fence, sink, which)
	}
	return d.Capture(ctx, fence, sink)
}

// captureStages gives what the steps of a capture took, which end now. Compression, encryption
// and the store are summed over all cores, and go on beside them.
func captureStages(laps *driver.Laps, got driver.Captured, stats image.Stats) []schemas.Stage {
	laps.Mark("commit")
	all := laps.Stages()
	named := func(name string) bool {
		return slices.ContainsFunc(all, func(s schemas.Stage) bool { return s.Name == name })
	}
	if !named("freeze") { // the driver doesn't tell its steps
		all = append(all, schemas.Stage{Name: "freeze", MS: got.FreezeTook.Milliseconds()})
	}
	for i := range all {
		if all[i].Name == "capture" {
			all[i].Bytes = stats.LogicalBytes
		}
	}
	all = append(all, []schemas.Stage{
		{Name: "compress", MS: stats.Compress.Milliseconds(), Bytes: stats.NewBytes},
		{Name: "encrypt", MS: stats.Encrypt.Milliseconds()},
		{Name: "store", MS: stats.Store.Milliseconds(), Bytes: stats.StoredBytes},
		{Name: "frozen", MS: time.Since(got.Frozen).Milliseconds()},
		{Name: "durable", MS: laps.Total().Milliseconds(), Bytes: stats.StoredBytes},
	}...)
	return append(all, wayStages(got)...)
}

// stamped gives a driver's warnings their time. Of several with one code and subject it keeps
// the last: it was given by the step that knew most.
func stamped(all []schemas.Warning, at time.Time) (out []schemas.Warning) {
	for _, w := range all {
		w.At = at
		same := func(v schemas.Warning) bool { return w.Code != "" && v.Code == w.Code && v.Subject == w.Subject }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = w
			continue
		}
		out = append(out, w)
	}
	return out
}

// imageStep reaches the failpoint of a step of writing an image.
func (c *capturer) imageStep(ctx context.Context, s image.Step) error {
	return c.failpoints.At(ctx, failpoint.Name("image."+string(s)))
}

// wayStages gives the rehearsal as a stage, if there was one, and the way that the memory took into the image, "memory" or "stream", as a
// stage, with the bytes of the image that were held in memory beside the session. It gives
// none for a driver that has only one way.
func wayStages(got driver.Captured) (all []schemas.Stage) {
	if got.Rehearsed {
		all = append(all, schemas.Stage{Name: "rehearsal", MS: got.RehearsalTook.Milliseconds()})
	}
	if got.Way == "" {
		return all
	}
	return append(all, schemas.Stage{Name: string(got.Way), MS: got.CaptureTook.Milliseconds(), Bytes: got.Held})
}

// captureFailed lets the session run on and records why it wasn't captured. If its image may
// be durable (stored), the record comes before the thaw: if this host counts as lost, others
// go on from that image.
func (c *capturer) captureFailed(ctx context.Context, rec statekv.Versioned, d driver.Driver, fence driver.Fence, stored bool, cause error) error {
	if ctx.Err() != nil || errors.Is(cause, statekv.ErrUnknown) {
		return cause // the next worker on this host finds it frozen, and the record as it is
	}
	if errors.Is(cause, errMoved) {
		return cause // the record decides now: the reconciler thaws it if that says running
	}
	if d != nil {
		if i, err := d.Inspect(ctx, rec.UID); err == nil && i.State == driver.Exited {
			return c.ending.ended(ctx, d, &rec, i) // that is the reason, and nothing is left to thaw
		}
	}
	var frozen error // the record is written all the same, and the thaw tried again later
	if d != nil && !stored {
		frozen = runOn(ctx, d, fence)
	}
	if err := c.failpoints.At(ctx, failpoint.AbortThawed); err != nil {
		return err
	}
	next, err := c.recorder.swap(ctx, rec, c.whyNot(ctx, rec, cause))
	if err != nil {
		return err
	}
	c.alert(ctx, rec.SessionRecord, next.SessionRecord)
	if d != nil && stored {
		frozen = thaw(ctx, d, fence)
	}
	if err := c.failpoints.At(ctx, failpoint.AbortRecorded); err != nil {
		return err
	}
	return frozen
}

// whyNot gives the transition of a capture that failed or was given up.
func (c *capturer) whyNot(ctx context.Context, rec statekv.Versioned, cause error) schemas.Transition {
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
	c.recorder.event(ctx, rec.SessionRecord, "capture_failed", "%s (%d in a row)", cause, count)
	f := failure(kind, cause, count)
	if kind == schemas.OpSuspend {
		f.Open, f.Seq = count >= c.policy(rec.SessionRecord).Breaker, heardUpTo(rec)
	}
	return schemas.Transition{Type: t, Reason: f.Text, Set: schemas.Set{Failure: f}}
}

// alert publishes once that the breaker has opened.
func (c *capturer) alert(ctx context.Context, before, after schemas.SessionRecord) {
	f, was := after.Failure, before.Failure
	if f != nil && f.Open && (was == nil || !was.Open) {
		what := "it runs on, and isn't suspended for idleness before `diapause suspend` works, or `suspend --reset`"
		if onBreaker(after, c.policy(after)) == schemas.BreakerStop {
			what = "it is stopped as soon as it isn't in use, as --on-suspend-failure or its policy says"
		}
		c.recorder.event(ctx, after, "breaker_open", "%d suspends in a row failed; %s: %s", f.Count, what, f.Text)
	}
}

func (c *capturer) checkpointed(ctx context.Context, rec statekv.Versioned, d driver.Driver, fence driver.Fence, img taken) error {
	frozen := thaw(ctx, d, fence)
	if err := c.failpoints.At(ctx, failpoint.CheckpointThawed); err != nil {
		return err
	}
	next, err := c.recorder.swap(ctx, rec, schemas.Transition{
		Type: schemas.TCheckpointed, Reason: reasonOf(rec), Stages: img.stages,
		Set: schemas.Set{Head: &img.head, Size: &img.sizes, Warnings: img.warn},
	})
	if err != nil {
		return err
	}
	c.snapshots.FollowReaders(ctx, next, img.readers)
	if err := c.failpoints.At(ctx, failpoint.CheckpointRecorded); err != nil {
		return err
	}
	return frozen // the next look at the record tries again
}
