package worker

import (
	"context"
	"slices"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// A driver may keep something of a session that has stopped here, for the time when it goes
// on. When it went on elsewhere, or was removed there, nobody asks this host for it.

// findKept notes what the drivers keep, and looks at it.
func (w *Worker) findKept() {
	for name, d := range w.Drivers {
		k, ok := d.(driver.Keeper)
		if !ok {
			continue
		}
		all, err := k.Kept()
		if err != nil {
			w.Log.Warn("couldn't learn what is kept of sessions", "driver", name, "err", err)
			continue
		}
		for _, one := range all {
			w.mayKeep(one.Name, one.UID)
			w.actors.wake(one.Name)
		}
	}
}

// mayKeep notes that something may be kept here of a session.
func (w *Worker) mayKeep(n schemas.Name, uid schemas.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteKept(n, uid)
}

// noteKept does it for callers that hold mu.
func (w *Worker) noteKept(n schemas.Name, uid schemas.UID) {
	if !slices.Contains(w.keptOf[n], uid) {
		w.keptOf[n] = append(w.keptOf[n], uid)
	}
}

// followKept looks at what may be kept of a session when its record is another host's.
// Callers hold mu.
func (w *Worker) followKept(v statekv.Versioned) {
	n := v.Name()
	switch _, keeps := w.Drivers[v.Driver].(driver.Keeper); {
	case v.Host != w.Host:
	case v.State == schemas.Deleted && v.Op == nil: // nothing of it is
		w.dropKept(n, v.UID)
	case keeps:
		w.noteKept(n, v.UID)
	}
	if slices.ContainsFunc(w.keptOf[n], func(uid schemas.UID) bool { return uid != v.UID || v.Host != w.Host }) {
		w.actors.wake(n)
	}
}

// releaseKept lets go of what is kept here of sessions that went on elsewhere, or are no
// more. Where that fails the sweep comes back to it: nothing runs of it, and what is asked of
// the session that has the name now doesn't wait.
func (w *Worker) releaseKept(ctx context.Context, rec statekv.Versioned) {
	w.mu.Lock()
	uids := slices.Clone(w.keptOf[rec.Name()])
	w.mu.Unlock()
	for _, uid := range uids {
		if uid == rec.UID && rec.Host == w.Host {
			continue // what is asked of this host says
		}
		if err := w.releaseOne(ctx, rec, uid); err != nil && ctx.Err() == nil {
			w.Log.Error("couldn't let go of what was kept of a session", "session", rec.Name().String(), "uid", uid, "err", err)
		}
	}
}

func (w *Worker) releaseOne(ctx context.Context, rec statekv.Versioned, uid schemas.UID) error {
	d, k, err := w.keeps(uid)
	if err != nil {
		return err
	}
	if d == nil {
		w.forgetKept(rec.Name(), uid)
		return nil
	}
	if k.Foreign && uid == rec.UID && rec.State != schemas.Deleted {
		return nil // kept as long as that lives
	}
	history, err := w.Records.History(ctx, rec.Name())
	if err != nil || !w.wentOn(history, k) {
		return err
	}
	w.Log.Info("letting go of what was kept of a session that went on elsewhere, or was removed there", "session", k.Name.String(), "uid", uid, "epoch", k.Epoch)
	if err := d.Release(ctx, driver.Fence{UID: uid, Name: k.Name, Epoch: k.Epoch}); err != nil {
		return err
	}
	w.forgetKept(rec.Name(), uid)
	return nil
}

// keeps finds the driver that keeps something of a session; nil if none does.
func (w *Worker) keeps(uid schemas.UID) (driver.Keeper, driver.Kept, error) {
	for _, d := range w.Drivers {
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

func (w *Worker) forgetKept(n schemas.Name, uid schemas.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropKept(n, uid)
}

// dropKept does it for callers that hold mu.
func (w *Worker) dropKept(n schemas.Name, uid schemas.UID) {
	if w.keptOf[n] = slices.DeleteFunc(w.keptOf[n], func(u schemas.UID) bool { return u == uid }); len(w.keptOf[n]) == 0 {
		delete(w.keptOf, n)
	}
}

// wentOn reports whether what is kept of a session can't be what it goes on from: it was
// removed, or has gone on elsewhere since from a snapshot. What was there before a session is
// kept as long as that lives, and so is what it had when it was begun anew elsewhere, for its
// host was away: no snapshot has it, and nobody said that it may go. An answer from the past,
// or one that lacks the session, says nothing.
func (w *Worker) wentOn(history []statekv.Versioned, k driver.Kept) bool {
	known := false
	for _, v := range history {
		switch {
		case v.UID != k.UID:
			if known {
				return true // its name is another's
			}
		case v.Epoch <= k.Epoch:
			known = true
		case v.State == schemas.Deleted:
			return true
		default:
			known = true
			if k.Foreign || v.Host == w.Host || !begun(v.SessionRecord) {
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

// begun reports whether a record says that the session's command was begun, and isn't on
// trial.
func begun(r schemas.SessionRecord) bool {
	switch {
	case r.State == schemas.Suspending:
		return true
	case r.State != schemas.Running:
		return false
	}
	return r.Op == nil || r.Op.Kind != schemas.OpBegin && r.Op.Kind != schemas.OpProve
}
