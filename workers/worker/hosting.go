package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/snapshots"
)

// hosting knows which sessions may have processes on this host, and until when the host's
// lease lets them run.
type hosting struct {
	drivers   drivers
	lease     *lease.Holder // may be nil
	snapshots *snapshots.Store
	wake      func(schemas.Name)
	log       *slog.Logger

	mu      sync.Mutex
	hosted  map[schemas.Name]schemas.SessionRecord   // what may have processes here
	former  map[schemas.Name][]schemas.SessionRecord // what may have left processes here that the name's record no longer mentions
	telling map[schemas.UID]bool                     // of a renewal of the lease, just now
	tellers sync.WaitGroup
}

func newHosting(d drivers, l *lease.Holder, snaps *snapshots.Store, wake func(schemas.Name), log *slog.Logger) *hosting {
	return &hosting{
		drivers: d, lease: l, snapshots: snaps, wake: wake, log: log, hosted: map[schemas.Name]schemas.SessionRecord{},
		former: map[schemas.Name][]schemas.SessionRecord{}, telling: map[schemas.UID]bool{},
	}
}

func fenceOf(r schemas.SessionRecord) driver.Fence {
	return driver.Fence{UID: r.UID, Name: r.Name(), Epoch: r.Epoch}
}

// fence gives the right to have a session run for as long as the lease lasts that this host
// has now. A lease that the host takes later doesn't prolong it: other hosts may have had the
// session in between. So make a fence before the swap, or the look, that it relies on.
func (h *hosting) fence(r schemas.SessionRecord) driver.Fence {
	f := fenceOf(r)
	if h.lease != nil {
		held := h.lease.Last().Incarnation
		f.Lease = func() lease.Renewal {
			if now := h.lease.Last(); now.Incarnation == held {
				return now
			}
			return lease.Renewal{Incarnation: held}
		}
		f.Guard = r.OnLoss == schemas.LossResume
	}
	return f
}

// hold renews this host's lease until ctx ends.
func (h *hosting) hold(ctx context.Context) error {
	h.lease.Renewed = func(lease.Renewal) { h.renewAll(ctx) }
	return h.lease.Serve(ctx)
}

// renewAll tells the sessions that guard themselves of a renewal, each in a goroutine of its
// own: a shim that hangs must not cost the others their renewal.
func (h *hosting) renewAll(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.hosted {
		if r.OnLoss == schemas.LossResume {
			h.tell(ctx, r)
		}
	}
}

// renewPause is between two tries to reach a session's shim.
const renewPause = 100 * time.Millisecond

// tell tells a session of the last renewal, unless that is being done already. Callers hold
// mu.
func (h *hosting) tell(ctx context.Context, r schemas.SessionRecord) {
	d, ok := h.drivers.byName[r.Driver].(driver.Guarder)
	if !ok || h.telling[r.UID] || h.lease == nil {
		return
	}
	h.telling[r.UID] = true
	h.tellers.Go(func() {
		h.renew(ctx, d, r)
		h.mu.Lock()
		delete(h.telling, r.UID)
		h.mu.Unlock()
	})
}

// renew tries until the renewal has run out. It doesn't thaw a session that froze by itself:
// its actor looks at the record first.
func (h *hosting) renew(ctx context.Context, d driver.Guarder, r schemas.SessionRecord) {
	for {
		left := h.lease.Last().Until.Sub(lease.Now())
		if left <= 0 || ctx.Err() != nil {
			return
		}
		once, cancel := context.WithTimeout(ctx, left)
		err := d.Renew(once, h.fence(r))
		cancel()
		if err == nil {
			i, err := h.drivers.byName[r.Driver].Inspect(ctx, r.UID)
			if err == nil && i.Fenced {
				h.wake(r.Name())
			}
			return
		}
		if !h.hosts(r) {
			return // it ended, or is suspended
		}
		select {
		case <-time.After(renewPause):
		case <-ctx.Done():
		}
	}
}

// hosts reports whether the session may still have processes here.
func (h *hosting) hosts(r schemas.SessionRecord) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, ok := h.hosted[r.Name()]
	return ok && now.UID == r.UID
}

// follow notes which sessions are this host's, from their records as they change. It wakes the
// actor of one that another host has taken, so that nothing of it stays here.
func (h *hosting) follow(ctx context.Context, v statekv.Versioned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := v.Name()
	before, was := h.hosted[n]
	live := v.State == schemas.Running || v.State == schemas.Suspending
	if was && before.UID != v.UID { // it moved, ended there and its name was given away, and no record of that came here
		h.former[n] = append(h.former[n], before)
		h.wake(n)
	}
	switch {
	case v.Host == h.drivers.host && (live || v.Op != nil):
		h.hosted[n] = v.SessionRecord
		if live && v.OnLoss == schemas.LossResume && (!was || before.State != v.State) {
			h.tell(ctx, v.SessionRecord)
		}
	case was:
		delete(h.hosted, n)
		if v.Host != h.drivers.host {
			h.wake(n)
		}
	}
}

// evict removes what this host still has of a session that another host owns by now. Only a
// record of a higher epoch proves that: a stale answer doesn't.
func (h *hosting) evict(ctx context.Context, rec statekv.Versioned) error {
	d, ok := h.drivers.byName[rec.Driver]
	if !ok {
		return nil
	}
	i, err := d.Inspect(ctx, rec.UID)
	if err != nil || i.Epoch >= rec.Epoch {
		return nil // it isn't here, or not to be judged by this record
	}
	h.log.Warn("removing what another host has taken over", rec.Logged("host", rec.Host, "removed", i.Epoch)...)
	h.snapshots.Forget(rec.UID)
	return d.Stop(ctx, driver.Fence{UID: rec.UID, Name: rec.Name(), Epoch: i.Epoch})
}

// evictFormer does the same for earlier sessions of the name.
func (h *hosting) evictFormer(ctx context.Context, rec statekv.Versioned) error {
	h.mu.Lock()
	all := h.former[rec.Name()]
	h.mu.Unlock()
	for _, old := range all {
		if old.UID == rec.UID {
			continue
		}
		now := rec
		now.UID, now.Driver = old.UID, old.Driver
		if err := h.evict(ctx, now); err != nil {
			return fmt.Errorf("remove what is left of an earlier session %s: %w", rec.Name(), err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := h.former[rec.Name()][len(all):]; len(left) > 0 {
		h.former[rec.Name()] = left
	} else {
		delete(h.former, rec.Name())
	}
	return nil
}

// count adds to c the sessions that may have processes here.
func (h *hosting) count(c *Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.hosted {
		c.Hosted[r.State]++
	}
}
