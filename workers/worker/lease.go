package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// fence gives the right to have a session run: as long as the lease lets it that this host
// has now. One that it takes anew when that has run out gives none: others may have had the
// session in between. So a fence is made before the swap, or the look, that it stands on.
func (w *Worker) fence(r schemas.SessionRecord) driver.Fence {
	f := fenceOf(r)
	if w.Lease != nil {
		held := w.Lease.Last().Incarnation
		f.Lease = func() lease.Renewal {
			if now := w.Lease.Last(); now.Incarnation == held {
				return now
			}
			return lease.Renewal{Incarnation: held}
		}
		f.Guard = r.OnLoss == schemas.LossResume
	}
	return f
}

// holdLease renews this host's lease until ctx ends.
func (w *Worker) holdLease(ctx context.Context) error {
	w.Lease.Renewed = func(lease.Renewal) { w.renewAll(ctx) }
	return w.Lease.Serve(ctx)
}

// renewAll tells the sessions that guard themselves of a renewal, each for itself: one
// whose shim hangs must not cost the others theirs.
func (w *Worker) renewAll(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.hosted {
		if r.OnLoss == schemas.LossResume {
			w.tell(ctx, r)
		}
	}
}

// renewPause is between two tries to reach a session's shim.
const renewPause = 100 * time.Millisecond

// tell has a session hear of the last renewal, unless it is being told already. Callers
// hold mu.
func (w *Worker) tell(ctx context.Context, r schemas.SessionRecord) {
	d, ok := w.Drivers[r.Driver].(driver.Guarder)
	if !ok || w.telling[r.UID] || w.Lease == nil {
		return
	}
	w.telling[r.UID] = true
	w.tellers.Go(func() {
		w.renew(ctx, d, r)
		w.mu.Lock()
		delete(w.telling, r.UID)
		w.mu.Unlock()
	})
}

// renew tries as long as the renewal is worth telling. A session that stood still
// by itself isn't thawed by that: its actor looks at its record first.
func (w *Worker) renew(ctx context.Context, d driver.Guarder, r schemas.SessionRecord) {
	for {
		left := w.Lease.Last().Until.Sub(lease.Now())
		if left <= 0 || ctx.Err() != nil {
			return
		}
		once, cancel := context.WithTimeout(ctx, left)
		err := d.Renew(once, w.fence(r))
		cancel()
		if err == nil {
			i, err := w.Drivers[r.Driver].Inspect(ctx, r.UID)
			if err == nil && i.Fenced {
				w.actors.wake(r.Name())
			}
			return
		}
		if !w.hosts(r) {
			return // it ended, or sleeps
		}
		select {
		case <-time.After(renewPause):
		case <-ctx.Done():
		}
	}
}

// hosts reports whether the session may still have processes here.
func (w *Worker) hosts(r schemas.SessionRecord) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, ok := w.hosted[r.Name()]
	return ok && now.UID == r.UID
}

// follow notes which sessions are this host's, from their records as they change. One
// that another host has taken is looked at, so that nothing of it stays here.
func (w *Worker) follow(ctx context.Context, v statekv.Versioned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := v.Name()
	before, was := w.hosted[n]
	live := v.State == schemas.Running || v.State == schemas.Suspending
	w.followKept(v)
	if was && before.UID != v.UID { // it went elsewhere, ended there and gave its name away, unheard of here
		w.former[n] = append(w.former[n], before)
		w.actors.wake(n)
	}
	switch {
	case v.Host == w.Host && (live || v.Op != nil):
		w.hosted[n] = v.SessionRecord
		if live && v.OnLoss == schemas.LossResume && (!was || before.State != v.State) {
			w.tell(ctx, v.SessionRecord)
		}
	case was:
		delete(w.hosted, n)
		if v.Host != w.Host {
			w.actors.wake(n)
		}
	}
}

// evict removes what this host still has of a session that is another's by now. Only a
// record of a higher epoch says so: an answer from the past doesn't.
func (w *Worker) evict(ctx context.Context, rec statekv.Versioned) error {
	d, ok := w.Drivers[rec.Driver]
	if !ok {
		return nil
	}
	i, err := d.Inspect(ctx, rec.UID)
	if err != nil || i.Epoch >= rec.Epoch {
		return nil // it isn't here, or not to be judged by this record
	}
	w.Log.Warn("removing what another host has taken over", "session", rec.Name().String(), "host", rec.Host, "epoch", i.Epoch, "recorded", rec.Epoch)
	w.dropPages(rec.UID)
	return d.Stop(ctx, driver.Fence{UID: rec.UID, Name: rec.Name(), Epoch: i.Epoch})
}

// evictFormer does the same for earlier sessions of the name.
func (w *Worker) evictFormer(ctx context.Context, rec statekv.Versioned) error {
	w.mu.Lock()
	all := w.former[rec.Name()]
	w.mu.Unlock()
	for _, old := range all {
		if old.UID == rec.UID {
			continue
		}
		now := rec
		now.UID, now.Driver = old.UID, old.Driver
		if err := w.evict(ctx, now); err != nil {
			return fmt.Errorf("remove what is left of an earlier session %s: %w", rec.Name(), err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.former[rec.Name()][len(all):]; len(left) > 0 {
		w.former[rec.Name()] = left
	} else {
		delete(w.former, rec.Name())
	}
	return nil
}

// goOn records that a session which stood still by itself is this host's still, before
// it is thawed: whoever was taking it over loses to that, or this to them.
func (w *Worker) goOn(ctx context.Context, rec *statekv.Versioned) error {
	next, err := w.swapOwned(ctx, *rec, schemas.Transition{
		Type: schemas.TKept, Reason: "it stood still by itself while its host's lease wasn't renewed, and goes on",
	})
	if err == nil {
		*rec = next
	}
	return err
}

// runOn thaws a session of which no image is durable: no other host can have it, unless
// it guards itself.
func (w *Worker) runOn(ctx context.Context, d driver.Driver, f driver.Fence) error {
	if !f.Guard {
		f.Lease = nil
	}
	return w.thaw(ctx, d, f)
}
