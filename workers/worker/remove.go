package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/failpoint"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// remove deletes what is left of a session whose record says deleted: its
// processes, then its images, keys first. Images that a fork still needs stay
// until it has one of its own.
func (w *Worker) remove(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return err
	}
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return fmt.Errorf("stop deleted session %s: %w", rec.Name(), err)
	}
	if r, ok := d.(driver.Releaser); ok {
		if err := r.Release(ctx, fenceOf(rec.SessionRecord)); err != nil {
			return fmt.Errorf("let go of deleted session %s: %w", rec.Name(), err)
		}
	}
	if err := w.Failpoints.At(ctx, failpoint.RemoveStopped); err != nil {
		return err
	}
	w.dropPages(rec.UID)
	for {
		by, err := w.pinned(ctx, rec.SessionRecord)
		if err != nil {
			return err
		}
		if by == "" {
			break
		}
		if w.heldBy(by, rec.Name()) { // it was looked at after that was known
			return w.waitForFork(ctx, rec, by)
		}
	}
	if err := w.Failpoints.At(ctx, failpoint.RemoveUnneeded); err != nil {
		return err
	}
	if rec.Lineage != "" {
		if err := w.deleteImages(ctx, rec.SessionRecord); err != nil {
			return err
		}
	}
	if err := w.Failpoints.At(ctx, failpoint.RemoveDeleted); err != nil {
		return err
	}
	if rec.Op.Shred {
		return w.shredded(ctx, rec)
	}
	_, err = w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TRemoved, Reason: "its processes and images are gone"})
	if err != nil {
		return err
	}
	return w.Failpoints.At(ctx, failpoint.RemoveRecorded)
}

// heldBy notes that the images of a deleted session wait for another one, whose
// next revision wakes its actor, and reports whether that was noted already.
func (w *Worker) heldBy(fork string, n schemas.Name) (before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = slices.Contains(w.held[fork], n)
	if !before {
		w.held[fork] = append(w.held[fork], n)
	}
	return before
}

// letGo wakes the actors of those whose images waited for a session.
func (w *Worker) letGo(fork string) {
	w.mu.Lock()
	waiting := w.held[fork]
	delete(w.held, fork)
	w.mu.Unlock()
	for _, n := range waiting {
		w.actors.wake(n)
	}
}

// kill ends a session's processes because somebody asked for it.
func (w *Worker) kill(ctx context.Context, rec statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return err
	}
	if err := w.keepOutput(ctx, d, rec.SessionRecord); err != nil {
		w.Log.Warn("the last output is not kept", "session", rec.Name().String(), "err", err)
	}
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return fmt.Errorf("kill session %s: %w", rec.Name(), err)
	}
	if err := w.Failpoints.At(ctx, failpoint.KillStopped); err != nil {
		return err
	}
	reason := cmp.Or(rec.Op.Description, "killed on request")
	exit := &schemas.Exit{Code: 128 + 9, Signal: 9, Reason: reason, At: time.Now().UTC()}
	_, err = w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TExited, Reason: reason, Set: schemas.Set{Exit: exit}})
	if err != nil {
		return err
	}
	return w.Failpoints.At(ctx, failpoint.KillRecorded)
}

// onBreaker is what becomes of a session whose breaker opened: what was said when it was
// made, else what its policy says.
func (w *Worker) onBreaker(r schemas.SessionRecord) schemas.OnBreaker {
	return cmp.Or(r.OnBreaker, w.policyOf(r).OnBreaker, schemas.BreakerKeep)
}

// stopUnsuspendable asks for the end of a session whose breaker is open, if that is
// what it was made with. One that is in use by now runs on: when it no longer is, it is to
// be suspended once more, and stopped if that fails.
func (w *Worker) stopUnsuspendable(ctx context.Context, rec *statekv.Versioned) error {
	if f := rec.Failure; f == nil || !f.Open || w.onBreaker(rec.SessionRecord) != schemas.BreakerStop || rec.State != schemas.Running || rec.Op != nil {
		return nil
	}
	late, err := w.Bus.Since(ctx, rec.Name(), max(rec.Failure.Seq, rec.Born))
	if err != nil {
		return err
	}
	policy := w.policyOf(rec.SessionRecord)
	for _, m := range late {
		if session.Undoes(schemas.Op{Idle: true}, m.Source, m.Activity, policy) {
			return nil
		}
	}
	op := schemas.NewOp(schemas.OpKill, 0, time.Now())
	op.Description = fmt.Sprintf("stopped, as it was made to be: its last %d suspends failed", rec.Failure.Count)
	next, err := w.swapOwned(ctx, *rec, schemas.Transition{Type: schemas.TKill, Reason: op.Description, Set: schemas.Set{Op: op}})
	if err == nil {
		*rec = next
	}
	return err
}

func (w *Worker) deleteImages(ctx context.Context, r schemas.SessionRecord) error {
	if err := image.DeleteLineage(ctx, w.Images, r.Tenant, r.Lineage); err != nil {
		return fmt.Errorf("delete the images of session %s: %w", r.Name(), err)
	}
	w.event(ctx, r, "image_deleted", "all images of the session were deleted with it")
	return nil
}

// pinned names a session whose record still points into r's lineage. A fork
// writes its record before it reads this one's, and this one says deleted
// before the forks' are read here: one of the two sees the other.
func (w *Worker) pinned(ctx context.Context, r schemas.SessionRecord) (by string, err error) {
	all := false
	watch, stop := context.WithCancel(ctx)
	defer stop()
	err = w.Records.Watch(watch, func(v statekv.Versioned) {
		if v.UID != r.UID && v.State != schemas.Deleted && needs(v.SessionRecord, r) {
			by = v.Name().String()
		}
	}, func() {
		all = true
		stop()
	})
	if err == nil && !all {
		err = fmt.Errorf("look for forks of session %s: %w", r.Name(), ctx.Err())
	}
	return by, err
}

func needs(fork, origin schemas.SessionRecord) bool {
	for _, h := range fork.Heads() {
		if lineage, err := lineageOf(origin, h); err == nil && lineage == origin.Lineage {
			return true
		}
	}
	return false
}

// waitForFork ends the actor's work for now, leaving the op for the sweep. The
// log says so once.
func (w *Worker) waitForFork(ctx context.Context, rec statekv.Versioned, by string) error {
	if rec.Transition.Type == schemas.TDeferred {
		return errLater
	}
	_, err := w.swapOwned(ctx, rec, schemas.Transition{
		Type: schemas.TDeferred, Reason: "its processes are gone, its images stay until session " + by + " has an image of its own",
	})
	if err != nil {
		return err
	}
	return errLater
}
