package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// reconciler brings a session's record and what its host has of it together.
type reconciler struct {
	claim    string // of this process
	drivers  drivers
	hosting  *hosting
	recorder *recorder
	starter  *starter
	attempts *attempts
	ending   *ending
}

// run compares the record with the host before its op is driven: a session that ended is
// recorded as such, one that should run and doesn't is lost, one that is frozen for no reason is
// thawed, what is left of one that is over is removed, and an idle suspend that a restart
// interrupted is given up, since no activity was heard meanwhile.
func (r *reconciler) run(ctx context.Context, rec *statekv.Versioned) error {
	d, err := r.drivers.of(rec.SessionRecord)
	if err != nil {
		return nil // its op says so, if it has one
	}
	fence := r.hosting.fence(rec.SessionRecord)
	i, err := d.Inspect(ctx, rec.UID)
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return fmt.Errorf("look for session %s: %w", rec.Name(), err)
	}
	here := err == nil
	switch {
	case here && i.State == driver.Exited && toBeProved(rec.SessionRecord):
		return r.starter.fallBack(ctx, rec, endOf(i))
	case here && i.State == driver.Exited:
		return r.ending.ended(ctx, d, rec, i)
	case !here && (rec.State == schemas.Running || rec.State == schemas.Suspending) && !killing(rec.SessionRecord):
		return r.missing(ctx, rec)
	case rec.State == schemas.Running && (rec.Op == nil || toBeProved(rec.SessionRecord)) && i.State == driver.Frozen:
		if i.Fenced {
			if err := r.recorder.goOn(ctx, rec); err != nil {
				return err
			}
		}
		return thaw(ctx, d, fence)
	case interrupted(rec.SessionRecord, r.claim) && rec.Op.Idle && rec.State == schemas.Suspending:
		return r.giveUp(ctx, d, rec)
	case here && over(rec.SessionRecord) && rec.State == schemas.Exited:
		return clearEnded(ctx, d, rec.SessionRecord)
	case here && (over(rec.SessionRecord) || rec.State == schemas.Starting):
		return d.Stop(ctx, fenceOf(rec.SessionRecord))
	}
	return nil
}

// over reports whether nothing of the session should be on a host any more.
func over(r schemas.SessionRecord) bool {
	return r.Op == nil && (r.State == schemas.Suspended || r.State == schemas.Exited || r.State == schemas.Failed || r.State == schemas.Deleted)
}

// killing reports whether its processes are to be ended on request: then they may
// be gone already, from an attempt that didn't come to its end.
func killing(r schemas.SessionRecord) bool { return r.Op != nil && r.Op.Kind == schemas.OpKill }

// interrupted reports whether another process than this one claimed the op.
func interrupted(r schemas.SessionRecord, claim string) bool {
	return r.Op != nil && r.Op.Claim != "" && r.Op.Claim != claim
}

// neutral are transitions that prove nothing about a session's processes: after them alone it
// may still never have run.
var neutral = []schemas.TransitionType{
	schemas.TSuspend, schemas.TCheckpoint, schemas.TClaimed, schemas.TIdleRule, schemas.TResealed, schemas.TExposed,
	schemas.TShared, schemas.TUnshared, schemas.TRedacted,
}

// neverRan finds the transition that recorded a session to run which isn't on its host. never
// says that it executed nothing: an earlier process of this host made the transition and
// stopped there, or this one never got an answer to it. A driver knows every session that may
// have executed an instruction until Stop, and Stop isn't called before something else is
// recorded. move is the move that the transition ended.
func (r *reconciler) neverRan(ctx context.Context, rec statekv.Versioned) (runs schemas.TransitionType, move *schemas.Move, never bool, err error) {
	all, err := r.recorder.records.History(ctx, rec.Name())
	if err != nil {
		return "", nil, false, err
	}
	for i, v := range slices.Backward(all) {
		t := v.Transition
		if v.Version > rec.Version || slices.Contains(neutral, t.Type) {
			continue
		}
		ran := t.Type != schemas.TStarted && t.Type != schemas.TResumed
		if i > 0 && all[i-1].Op != nil {
			move = all[i-1].Op.Move
		}
		return t.Type, move, !ran && v.UID == rec.UID && (claimOf(all[:i], t.Op) != r.claim || r.attempts.noted(t.Op)), nil
	}
	return "", nil, false, nil
}

// claimOf finds which process worked on an op last. No clock says that: they jump.
func claimOf(history []statekv.Versioned, op string) string {
	for _, v := range slices.Backward(history) {
		if t := v.Transition; t.Type == schemas.TClaimed && t.Op == op {
			return t.Set.Claim
		}
	}
	return ""
}

// missing decides what becomes of a session that should be on this host and isn't.
func (r *reconciler) missing(ctx context.Context, rec *statekv.Versioned) error {
	if runs, move, never, err := r.neverRan(ctx, *rec); err != nil {
		return err
	} else if never {
		return r.starter.startOver(ctx, rec, runs, move)
	}
	return r.ending.gone(ctx, rec, "its processes are no longer on host "+string(r.drivers.host)+" (was it restarted?)")
}

// giveUp ends a suspend that another process of this host began. Its last swap may still
// arrive, so the record comes before the thaw.
func (r *reconciler) giveUp(ctx context.Context, d driver.Driver, rec *statekv.Versioned) error {
	fence := r.hosting.fence(rec.SessionRecord)
	next, err := r.recorder.swap(ctx, *rec, schemas.Transition{
		Type: schemas.TSuspendAborted, Reason: "the worker was restarted, and no activity was heard meanwhile",
	})
	if err != nil {
		return err
	}
	*rec = next
	return thaw(ctx, d, fence)
}

// thaw thaws a session, if it is here.
func thaw(ctx context.Context, d driver.Driver, f driver.Fence) error {
	err := d.Thaw(ctx, f)
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return fmt.Errorf("thaw session %s: %w", f.Name, err)
	}
	return nil
}

// runOn thaws a session of which no image is durable: no other host can have it, unless it
// guards itself.
func runOn(ctx context.Context, d driver.Driver, f driver.Fence) error {
	if !f.Guard {
		f.Lease = nil
	}
	return thaw(ctx, d, f)
}
