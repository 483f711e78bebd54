package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// retained knows what the drivers of this host keep of sessions that have stopped here. When
// one has gone on elsewhere, or was removed there, no op asks this host to release that.
type retained struct {
	drivers drivers
	records interface {
		History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
	}
	wake func(schemas.Name)
	log  *slog.Logger

	mu   sync.Mutex
	uids map[schemas.Name][]schemas.UID // what the drivers may keep something of
}

func newRetained(d drivers, records Records, wake func(schemas.Name), log *slog.Logger) *retained {
	return &retained{drivers: d, records: records, wake: wake, log: log, uids: map[schemas.Name][]schemas.UID{}}
}

// find notes what the drivers keep, and looks at it.
func (r *retained) find() {
	for name, d := range r.drivers.byName {
		k, ok := d.(driver.Keeper)
		if !ok {
			continue
		}
		all, err := k.Kept()
		if err != nil {
			r.log.Warn("could not list what a driver keeps of sessions", "driver", name, "err", err)
			continue
		}
		for _, one := range all {
			r.note(one.Name, one.UID)
			r.wake(one.Name)
		}
	}
}

// note notes that something may be kept here of a session.
func (r *retained) note(n schemas.Name, uid schemas.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(n, uid)
}

// noteLocked is note for callers that hold mu.
func (r *retained) noteLocked(n schemas.Name, uid schemas.UID) {
	if !slices.Contains(r.uids[n], uid) {
		r.uids[n] = append(r.uids[n], uid)
	}
}

// follow notes of which sessions something may be kept, from their records as they change, and
// wakes the actor of one whose record is another host's.
func (r *retained) follow(v statekv.Versioned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := v.Name()
	switch _, keeps := r.drivers.byName[v.Driver].(driver.Keeper); {
	case v.Host != r.drivers.host:
	case v.State == schemas.Deleted && v.Op == nil: // nothing of it is
		r.forgetLocked(n, v.UID)
	case keeps:
		r.noteLocked(n, v.UID)
	}
	if slices.ContainsFunc(r.uids[n], func(uid schemas.UID) bool { return uid != v.UID || v.Host != r.drivers.host }) {
		r.wake(n)
	}
}

// release releases what is kept here of sessions that went on elsewhere, or were removed. What
// fails is left to the next sweep: nothing runs of it, and the op of the session that has the
// name now must not wait.
func (r *retained) release(ctx context.Context, rec statekv.Versioned) {
	r.mu.Lock()
	uids := slices.Clone(r.uids[rec.Name()])
	r.mu.Unlock()
	for _, uid := range uids {
		if uid == rec.UID && rec.Host == r.drivers.host {
			continue // what is asked of this host says
		}
		if err := r.releaseOne(ctx, rec, uid); err != nil && ctx.Err() == nil {
			r.log.Error("could not release what was kept of a session", rec.Logged("uid", uid, "err", err)...)
		}
	}
}

func (r *retained) releaseOne(ctx context.Context, rec statekv.Versioned, uid schemas.UID) error {
	d, k, err := r.keeper(uid)
	if err != nil {
		return err
	}
	if d == nil {
		r.forget(rec.Name(), uid)
		return nil
	}
	if k.Foreign && uid == rec.UID && rec.State != schemas.Deleted {
		return nil // kept as long as that lives
	}
	history, err := r.records.History(ctx, rec.Name())
	if err != nil || !r.wentOn(history, k) {
		return err
	}
	r.log.Info("releasing what was kept of a session that went on elsewhere, or was removed there", "session", k.Name.String(), "uid", uid, "epoch", k.Epoch)
	if err := d.Release(ctx, driver.Fence{UID: uid, Name: k.Name, Epoch: k.Epoch}); err != nil {
		return err
	}
	r.forget(rec.Name(), uid)
	return nil
}

// keeper finds the driver that keeps something of a session; nil if none does.
func (r *retained) keeper(uid schemas.UID) (driver.Keeper, driver.Kept, error) {
	for _, d := range r.drivers.byName {
		k, ok := d.(driver.Keeper)
		if !ok {
			continue
		}
		all, err := k.Kept()
		if err != nil {
			return nil, driver.Kept{}, err
		}
		for _, one := range all {
			if one.UID == uid {
				return k, one, nil
			}
		}
	}
	return nil, driver.Kept{}, nil
}

func (r *retained) forget(n schemas.Name, uid schemas.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(n, uid)
}

// forgetLocked is forget for callers that hold mu.
func (r *retained) forgetLocked(n schemas.Name, uid schemas.UID) {
	if r.uids[n] = slices.DeleteFunc(r.uids[n], func(u schemas.UID) bool { return u == uid }); len(r.uids[n]) == 0 {
		delete(r.uids, n)
	}
}

// wentOn reports whether a session can't go on from what is kept of it: the session was
// removed, or has gone on elsewhere since from a snapshot. What was there before the session is
// kept until the session is removed. So is what it had when it was started again from nothing
// elsewhere, because its host was lost: no snapshot has that. A stale history, or one without
// the session, proves nothing.
func (r *retained) wentOn(history []statekv.Versioned, k driver.Kept) bool {
	known := false
	for _, v := range history {
		switch {
		case v.UID != k.UID:
			if known || v.Epoch > k.Epoch { // its own revisions may have left the log
				return true // its name is another's
			}
		case v.Epoch <= k.Epoch:
			known = true
		case v.State == schemas.Deleted:
			return true
		default:
			known = true
			if k.Foreign || v.Host == r.drivers.host || !hasRun(v.SessionRecord) {
				continue
			}
			if v.Boot != schemas.BootClean {
				return true
			}
			k.Foreign = true
		}
	}
	return false
}

// hasRun reports whether a record says that the session's command was executed, and that it
// isn't on trial.
func hasRun(r schemas.SessionRecord) bool {
	switch {
	case r.State == schemas.Suspending:
		return true
	case r.State != schemas.Running:
		return false
	}
	return r.Op == nil || r.Op.Kind != schemas.OpBegin && r.Op.Kind != schemas.OpProve
}
