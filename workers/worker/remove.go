package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/search"
	"github.com/diapause/diapause/workers/snapshots"
)

// remover deletes sessions.
type remover struct {
	host       schemas.HostID
	nc         *nats.Conn
	js         jetstream.JetStream
	names      stream.Names
	drivers    drivers
	recorder   *recorder
	snapshots  *snapshots.Store
	recordings *recordings.Spool
	searcher   *search.Searcher
	failpoints *failpoint.Set
	wake       func(schemas.Name)

	mu   sync.Mutex
	held map[string][]schemas.Name // by session: deleted ones whose images it still needs
}

// remove deletes what is left of a session whose record says deleted: its processes, then its
// images, keys first. Images that a fork still needs stay until the fork has one of its own.
func (v *remover) remove(ctx context.Context, rec statekv.Versioned) error {
	if err := v.end(ctx, rec.SessionRecord); err != nil {
		return err
	}
	if err := v.failpoints.At(ctx, failpoint.RemoveStopped); err != nil {
		return err
	}
	v.snapshots.Forget(rec.UID)
	v.searcher.Forget(rec.UID)
	if err := v.recordings.Remove(ctx, rec.UID); err != nil {
		return err
	}
	for {
		by, err := v.pinned(ctx, rec.SessionRecord)
		if err != nil {
			return err
		}
		if by == "" {
			break
		}
		if v.heldBy(by, rec.Name()) { // it was looked at after that was known
			return v.waitForFork(ctx, rec, by)
		}
	}
	if err := v.failpoints.At(ctx, failpoint.RemoveUnneeded); err != nil {
		return err
	}
	if rec.Lineage != "" {
		if err := v.deleteImages(ctx, rec.SessionRecord); err != nil {
			return err
		}
	}
	if err := v.failpoints.At(ctx, failpoint.RemoveDeleted); err != nil {
		return err
	}
	if rec.Op.Shred {
		return v.shredded(ctx, rec)
	}
	_, err := v.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TRemoved, Reason: "its processes and images are gone"})
	if err != nil {
		return err
	}
	return v.failpoints.At(ctx, failpoint.RemoveRecorded)
}

// end removes what a deleted session has on this host. A template has nothing.
func (v *remover) end(ctx context.Context, r schemas.SessionRecord) error {
	if _, template := r.Name().Template(); template {
		return nil
	}
	d, err := v.drivers.of(r)
	if err != nil {
		return err
	}
	if err := d.Stop(ctx, fenceOf(r)); err != nil {
		return fmt.Errorf("stop deleted session %s: %w", r.Name(), err)
	}
	if d, ok := d.(driver.Releaser); ok {
		if err := d.Release(ctx, fenceOf(r)); err != nil {
			return fmt.Errorf("release deleted session %s: %w", r.Name(), err)
		}
	}
	if d, ok := d.(driver.Forgetter); ok {
		if err := d.Forget(ctx, fenceOf(r)); err != nil {
			return fmt.Errorf("forget deleted session %s: %w", r.Name(), err)
		}
	}
	return nil
}

// heldBy notes that the images of a deleted session are needed by a fork, whose next revision
// wakes the session's actor. It reports whether that was noted before.
func (v *remover) heldBy(fork string, n schemas.Name) (before bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before = slices.Contains(v.held[fork], n)
	if !before {
		v.held[fork] = append(v.held[fork], n)
	}
	return before
}

// release wakes the actors of deleted sessions whose images a fork needed.
func (v *remover) release(fork string) {
	v.mu.Lock()
	waiting := v.held[fork]
	delete(v.held, fork)
	v.mu.Unlock()
	for _, n := range waiting {
		v.wake(n)
	}
}

func (v *remover) deleteImages(ctx context.Context, r schemas.SessionRecord) error {
	if err := v.snapshots.DeleteAll(ctx, r); err != nil {
		return err
	}
	v.recorder.event(ctx, r, "image_deleted", "all images of the session were deleted with it")
	return nil
}

// pinned names a session whose record still points into r's lineage, "" if there is none. A
// fork writes its record before it reads r's, and r says deleted before pinned reads the
// forks': one of the two sees the other.
func (v *remover) pinned(ctx context.Context, r schemas.SessionRecord) (by string, err error) {
	all := false
	watch, stop := context.WithCancel(ctx)
	defer stop()
	err = v.recorder.records.Watch(watch, func(fork statekv.Versioned) {
		if fork.UID != r.UID && fork.State != schemas.Deleted && needs(fork.SessionRecord, r) {
			by = fork.Name().String()
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
		if lineage, err := snapshots.LineageOf(origin, h); err == nil && lineage == origin.Lineage {
			return true
		}
	}
	return false
}

// waitForFork ends the actor's work for now and leaves the op for the sweep. It records that
// once.
func (v *remover) waitForFork(ctx context.Context, rec statekv.Versioned, by string) error {
	if rec.Transition.Type == schemas.TDeferred {
		return errLater
	}
	why := "its processes are gone, its images stay until session " + by + " has an image of its own"
	if n, err := schemas.ParseName(by); err == nil {
		if template, ok := n.Template(); ok {
			why = "its processes are gone, its images stay until template " + template + " is made"
		}
	}
	if _, ok := rec.Name().Template(); ok {
		why = "its image stays until session " + by + " has an image of its own"
	}
	_, err := v.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TDeferred, Reason: why})
	if err != nil {
		return err
	}
	return errLater
}
