package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// recover brings what the host has and what the records say together after a
// start of the worker. What was half done is undone or done again by the
// sessions' actors.
func (w *Worker) recover(ctx context.Context) error {
	if err := w.find(ctx); err != nil {
		return err
	}
	for _, f := range w.found {
		if err := w.adopt(ctx, f.driver, f.Instance); err != nil {
			return err
		}
	}
	if err := w.dropStrangers(ctx); err != nil {
		return err
	}
	w.findKept()
	return w.wakeAll(ctx)
}

// found is one instance that was on the host when the worker began.
type found struct {
	driver.Instance
	driver driver.Driver
	name   schemas.DriverName
}

// find has each driver look, once, for what is on the host.
func (w *Worker) find(ctx context.Context) error {
	if w.searched {
		return nil
	}
	var all []found
	for name, d := range w.Drivers {
		here, err := d.Recover(ctx)
		if err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
		for _, i := range here {
			all = append(all, found{i, d, name})
		}
	}
	w.found, w.searched = all, true
	return nil
}

// adoptWait bounds the removal of one session when the worker begins: it may hang.
const adoptWait = 30 * time.Second

// adopt decides about one instance that was found on the host: it is kept if the
// record knows it, and removed if a record of no lower epoch doesn't. What is later
// than the records is never removed: then it is they that have gone back.
func (w *Worker) adopt(ctx context.Context, d driver.Driver, i driver.Instance) error {
	rec, err := w.Records.Get(ctx, i.Name)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return err
	}
	switch {
	case err != nil || i.Epoch > rec.Epoch:
		w.Log.Error("the records have gone back: this session is on the host, and later than its record; it is left alone",
			"session", i.Name.String(), "uid", i.UID, "epoch", i.Epoch, "recorded", rec.Epoch)
		return nil
	case rec.UID == i.UID && rec.Host == w.Host && (rec.State != schemas.Deleted || rec.Op != nil):
		w.Log.Info("found", "session", i.Name.String(), "state", i.State, "record", rec.State)
		return nil
	}
	w.Log.Warn("removing what the record has left behind", "session", i.Name.String(), "uid", i.UID, "epoch", i.Epoch, "recorded", rec.Epoch)
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	if err := d.Stop(ctx, driver.Fence{UID: i.UID, Name: i.Name, Epoch: i.Epoch}); err != nil {
		// It must not keep the other sessions from being found.
		w.Log.Error("what the record has left behind is still there", "session", i.Name.String(), "uid", i.UID, "err", err)
	}
	return nil
}

// wakeAll makes an actor look at each record of this host.
func (w *Worker) wakeAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return w.Records.Watch(ctx, func(v statekv.Versioned) {
		if v.Host == w.Host && (v.State != schemas.Deleted || v.Op != nil) {
			w.actors.wake(v.Name())
		}
	}, stop)
}

// reconcile compares the record with the host before its op is driven: a session
// that ended is recorded as such, one that should run and doesn't is lost, one
// that is frozen for no reason goes on, what is left of one that is over goes,
// and an idle suspend that a restart interrupted is given up, since nobody could
// be heard meanwhile.
func (w *Worker) reconcile(ctx context.Context, rec *statekv.Versioned) error {
	d, err := w.driverFor(rec.SessionRecord)
	if err != nil {
		return nil // its op says so, if it has one
	}
	fence := w.fence(rec.SessionRecord)
	i, err := d.Inspect(ctx, rec.UID)
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return fmt.Errorf("look for session %s: %w", rec.Name(), err)
	}
	here := err == nil
	switch {
	case here && i.State == driver.Exited && toBeProved(rec.SessionRecord):
		return w.fallBack(ctx, rec, endOf(i))
	case here && i.State == driver.Exited:
		return w.ended(ctx, d, rec, i)
	case !here && (rec.State == schemas.Running || rec.State == schemas.Suspending) && !killing(rec.SessionRecord):
		return w.missing(ctx, rec)
	case rec.State == schemas.Running && (rec.Op == nil || toBeProved(rec.SessionRecord)) && i.State == driver.Frozen:
		if i.Fenced {
			if err := w.goOn(ctx, rec); err != nil {
				return err
			}
		}
		return w.thaw(ctx, d, fence)
	case interrupted(rec.SessionRecord, w.claim) && rec.Op.Idle && rec.State == schemas.Suspending:
		return w.giveUp(ctx, d, rec)
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

func (w *Worker) ended(ctx context.Context, d driver.Driver, rec *statekv.Versioned, i driver.Instance) error {
	switch {
	case rec.State != schemas.Running && rec.State != schemas.Suspending:
	case i.Lost && !killing(rec.SessionRecord):
		if err := w.gone(ctx, rec, fmt.Sprintf("its processes on host %s are gone: %s", w.Host, i.Exit.Reason)); err != nil {
			return err
		}
	default:
		exit := &schemas.Exit{At: time.Now().UTC()}
		if i.Exit != nil {
			exit.Code, exit.Signal, exit.Reason = i.Exit.Code, i.Exit.Signal, i.Exit.Reason
		}
		if err := w.keepOutput(ctx, d, rec.SessionRecord); err != nil {
			w.Log.Warn("the last output is not kept", "session", rec.Name().String(), "err", err)
		}
		next, err := w.swapOwned(ctx, *rec, schemas.Transition{
			Type: schemas.TExited, Reason: "its command ended by itself", Set: schemas.Set{Exit: exit},
		})
		if err != nil {
			return err
		}
		*rec = next
	}
	return d.Stop(ctx, fenceOf(rec.SessionRecord))
}

// unproven are transitions that others make of a session, or that say nothing of
// its processes: after them alone it may still never have run.
var unproven = []schemas.TransitionType{
	schemas.TSuspend, schemas.TCheckpoint, schemas.TClaimed, schemas.TIdleRule, schemas.TResealed,
}

// neverRan finds the transition that recorded a session that isn't on its host to
// run, if an earlier process of this host made it and stopped there, or this one
// never heard whether it had been made: a driver knows every session that may have
// executed an instruction until it is told to Stop, and nobody tells it that before
// something else is recorded.
func (w *Worker) neverRan(ctx context.Context, rec statekv.Versioned) (begun schemas.TransitionType, never bool, err error) {
	all, err := w.Records.History(ctx, rec.Name())
	if err != nil {
		return "", false, err
	}
	for i, v := range slices.Backward(all) {
		t := v.Transition
		if v.Version > rec.Version || slices.Contains(unproven, t.Type) {
			continue
		}
		ran := t.Type != schemas.TStarted && t.Type != schemas.TResumed
		return t.Type, !ran && v.UID == rec.UID && (claimOf(all[:i], t.Op) != w.claim || w.isUnborn(t.Op)), nil
	}
	return "", false, nil
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

// unborn notes that what an op was to start or restore is gone without having run,
// although the record may say that it runs: nobody knew in time.
func (w *Worker) unborn(rec statekv.Versioned, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notBorn[rec.UID] = birth{*rec.Op, cause.Error()}
}

// birth is an op that was to have a session run, and why it didn't.
type birth struct {
	schemas.Op
	why string
}

// stillborn reports whether a session that was recorded to run, and failed to,
// executed nothing: its driver would know it else, or has said so by cause.
func (w *Worker) stillborn(ctx context.Context, d driver.Driver, asked statekv.Versioned, cause error) bool {
	if driver.KindOf(cause) == driver.Broken {
		return false
	}
	_, err := d.Inspect(ctx, asked.UID)
	return errors.Is(err, driver.ErrNotHere)
}

// isHere reports whether a session whose start or restore failed is on this host
// nevertheless, and has not ended.
func (w *Worker) isHere(ctx context.Context, d driver.Driver, r statekv.Versioned) bool {
	i, err := d.Inspect(ctx, r.UID)
	return err == nil && (i.State == driver.Running || i.State == driver.Frozen)
}

func (w *Worker) isUnborn(op string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.notBorn {
		if o.ID == op {
			return true
		}
	}
	return false
}

// again begins once more what a crash or an error cut off between the record and the first
// instruction. What has been asked for since then is not for a session that never
// was there.
func (w *Worker) again(ctx context.Context, rec *statekv.Versioned, begun schemas.TransitionType) error {
	op := schemas.NewOp(schemas.OpStart, rec.Seq, time.Now())
	op.Boot = rec.Boot
	t := schemas.Transition{
		Type: schemas.TStartAgain, Reason: "the worker stopped before the first instruction", Op: op.ID, Set: schemas.Set{Op: op},
	}
	if begun == schemas.TResumed {
		t.Type, op.Kind, op.Source = schemas.TResumeAgain, schemas.OpResume, rec.Head
	}
	if toBeProved(rec.SessionRecord) {
		op.Fallback, op.WithinMS = rec.Op.Fallback, rec.Op.WithinMS
	}
	w.mu.Lock()
	if b, known := w.notBorn[rec.UID]; known { // of this process: it doesn't try for ever
		op.Attempts, t.Reason = b.Attempts, b.why
	}
	w.mu.Unlock()
	next, err := w.swapOwned(ctx, *rec, t)
	if err != nil {
		return err
	}
	*rec = next
	return nil
}

// missing decides what becomes of a session that should be on this host and isn't.
func (w *Worker) missing(ctx context.Context, rec *statekv.Versioned) error {
	if begun, never, err := w.neverRan(ctx, *rec); err != nil {
		return err
	} else if never {
		return w.again(ctx, rec, begun)
	}
	return w.gone(ctx, rec, "its processes are no longer on host "+string(w.Host)+" (was it restarted?)")
}

// gone records that a session's processes are, and says what there is to go on from.
func (w *Worker) gone(ctx context.Context, rec *statekv.Versioned, text string) error {
	if rec.Head != nil && rec.Size != nil {
		text += "; `diapause resume` goes on from its last snapshot, of " + rec.Size.At.Format(time.RFC3339)
	} else {
		text += "; it was never captured: only `diapause resume --clean` starts it again"
	}
	if err := w.lost(ctx, *rec, &driver.Error{Kind: driver.Broken, Text: text}); err != nil {
		return err
	}
	next, err := w.Records.Get(ctx, rec.Name())
	*rec = next
	return err
}

// giveUp ends a suspend that another process of this host began. Its last swap
// may still be on the way, so the record comes before the thaw.
func (w *Worker) giveUp(ctx context.Context, d driver.Driver, rec *statekv.Versioned) error {
	fence := w.fence(rec.SessionRecord)
	next, err := w.swapOwned(ctx, *rec, schemas.Transition{
		Type: schemas.TSuspendAborted, Reason: "the worker was restarted, and nobody could be heard meanwhile",
	})
	if err != nil {
		return err
	}
	*rec = next
	return w.thaw(ctx, d, fence)
}

func (w *Worker) thaw(ctx context.Context, d driver.Driver, f driver.Fence) error {
	err := d.Thaw(ctx, f)
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return fmt.Errorf("thaw session %s: %w", f.Name, err)
	}
	return nil
}
