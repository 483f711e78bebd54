package worker

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/diapause/diapause/workers/sense"
	"github.com/diapause/diapause/workers/snapshots"
	"github.com/diapause/diapause/workers/turns"
)

// starter has sessions run: it starts and restores them, and puts a snapshot in the place of
// a session.
type starter struct {
	drivers     drivers
	hosting     *hosting
	recorder    *recorder
	snapshots   *snapshots.Store
	recordings  *recordings.Spool
	sensor      *sense.Sensor
	interrupter *interrupter
	attempts    *attempts
	turns       *turns.Queue
	failpoints  *failpoint.Set
	policy      func(schemas.SessionRecord) session.Policy
	log         *slog.Logger
}

// attempt is one start or restore, as far as it got.
type attempt struct {
	driver driver.Driver
	asked  statekv.Versioned      // the record as it was
	rec    statekv.Versioned      // and as it is, after the swap to running if that was made
	runs   schemas.TransitionType // that swap
}

// start runs the session's command for the first time, or again from nothing. The record says
// running before the command's first instruction.
func (s *starter) start(ctx context.Context, rec statekv.Versioned) error {
	d, err := s.drivers.toRun(rec.SessionRecord)
	if err != nil {
		return s.startFailed(ctx, rec, err)
	}
	if err := s.stillUseless(ctx, rec.SessionRecord); err != nil {
		return s.startFailed(ctx, rec, err)
	}
	asked := rec.SessionRecord
	asked.Spec = cmp.Or(rec.Op.Spec, rec.Spec)
	spec, err := s.snapshots.Spec(asked)
	if err != nil {
		return s.startFailed(ctx, rec, err)
	}
	a := attempt{driver: d, asked: rec, rec: rec, runs: schemas.TStarted}
	op, arrived := toBegin(d, *rec.Op), func(int) {}
	advice := append(redeployed(rec.Warnings), advised(d, spec)...)
	fence, release := s.recordedFence(ctx, d, rec.SessionRecord, spec, nil)
	defer release()
	got, err := d.Start(ctx, fence, spec, func(ctx context.Context) error {
		ctx, done := beginning(ctx)
		defer done()
		if err := s.failpoints.At(ctx, failpoint.StartReady); err != nil {
			return err
		}
		if op == nil { // else the record says later that it runs
			arrived = s.sensor.Arriving(rec)
		}
		next, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TStarted, Reason: "its command starts", Set: schemas.Set{Op: op, Root: s.root(d, rec), Warnings: advice}})
		if err == nil {
			a.rec = next
			err = s.failpoints.At(ctx, failpoint.StartRecorded)
		}
		return err
	})
	arrived(got.PID)
	ran, err := s.settle(ctx, a, err)
	if err != nil || !ran {
		return err
	}
	if n := rec.Op.Notice; n != nil {
		s.recorder.event(ctx, rec.SessionRecord, "started_fresh", "%s (%s)", n.Text, n.Detail)
	}
	return s.failpoints.At(ctx, failpoint.StartDone)
}

// advised is what the user is told of this host when a session comes to run here.
func advised(d driver.Driver, spec schemas.Spec) []schemas.Warning {
	a, ok := d.(driver.Advisor)
	if !ok {
		return nil
	}
	return stamped(a.Advise(spec), time.Now())
}

// redeployed is what was told of a session that goes on with what others started in the place of
// what was suspended: that is to be seen for as long as it runs.
func redeployed(told []schemas.Warning) []schemas.Warning {
	return slices.DeleteFunc(slices.Clone(told), func(w schemas.Warning) bool { return w.Code != schemas.WarnRedeployed })
}

// root gives the container image below a session's own files, if the record hasn't it as it is.
func (s *starter) root(d driver.Driver, rec statekv.Versioned) *schemas.RootImage {
	r, ok := d.(driver.Rooted)
	if !ok {
		return nil
	}
	root, err := r.Root(rec.UID)
	if err != nil { // what is shown is older then
		s.log.Warn("could not look which image a session's root is", rec.Logged("err", err)...)
		return nil
	}
	if root == nil || rec.Root != nil && *rec.Root == *root {
		return nil
	}
	return root
}

// beginning gives the context for the swap that comes before a session's first instruction: a
// worker that is being stopped waits for the answer, since without it the session would have to
// be given up.
func beginning(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// settle does what is to be done about a start or a restore that returned, and reports whether
// the session runs.
func (s *starter) settle(ctx context.Context, a attempt, err error) (ran bool, _ error) {
	switch outcomeOf(s.facts(ctx, a, err)) {
	case succeeded:
		s.log.Info(string(a.runs), a.rec.Logged("boot", a.rec.Boot)...)
		return true, s.confirm(ctx, a.rec)
	case noteUnknown:
		s.attempts.note(a.asked, err)
	case takeBack:
		return false, s.takeBack(ctx, a, err)
	case recordLost:
		return false, s.lost(ctx, a.rec, err)
	case removeOrphan:
		return false, s.removeOrphan(ctx, a.rec)
	case recordFailed:
		return false, s.failed(ctx, a.rec, a.runs, err)
	}
	return false, err // the record, and what is here, are looked at again
}

// facts gathers what outcomeOf wants to know.
func (s *starter) facts(ctx context.Context, a attempt, err error) facts {
	f := facts{
		failed: err != nil, unknown: errors.Is(err, statekv.ErrUnknown), unleased: errors.Is(err, driver.ErrNoLease),
		stopping: ctx.Err() != nil, moved: errors.Is(err, errMoved), recorded: a.rec.Rev != a.asked.Rev,
	}
	switch {
	case err == nil, f.unknown, f.unleased, f.stopping, f.moved: // the others don't matter
	case f.recorded:
		i, lookErr := a.driver.Inspect(ctx, a.asked.UID)
		f.here = lookErr == nil && (i.State == driver.Running || i.State == driver.Frozen)
		f.neverRan = errors.Is(lookErr, driver.ErrNotHere) && driver.KindOf(err) != driver.Broken
		f.unheard = lookErr != nil && !errors.Is(lookErr, driver.ErrNotHere) && a.rec.Op != nil && a.rec.Op.Kind == schemas.OpBegin
	case a.runs == schemas.TResumed:
		f.orphan = unusedFork(a.rec) && errors.Is(err, image.ErrNotFound)
		f.passing = driver.KindOf(err) == driver.Transient && mayPass(err) && a.rec.Op.Attempts < resumeAttempts &&
			!s.attempts.again(a.rec.UID, a.rec.Op.ID, driver.CodeOf(err))
	}
	return f
}

// failed records that a start or a resume failed.
func (s *starter) failed(ctx context.Context, rec statekv.Versioned, runs schemas.TransitionType, cause error) error {
	if runs == schemas.TResumed {
		return s.resumeFailed(ctx, rec, cause)
	}
	return s.startFailed(ctx, rec, cause)
}

func (s *starter) startFailed(ctx context.Context, rec statekv.Versioned, cause error) error {
	s.log.Error("start failed", rec.Logged("err", cause)...)
	f := failure(schemas.OpStart, cause, 1)
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TStartFailed, Reason: f.Text, Set: schemas.Set{Failure: f}})
	return err
}

// toBegin is the op that remains when a session is recorded to run, if its driver says only
// later whether it does; nil for other drivers.
func toBegin(d driver.Driver, op schemas.Op) *schemas.Op {
	if l, ok := d.(driver.Late); !ok || !l.BeginsLate() {
		return nil
	}
	op.Kind, op.Attempts, op.Source, op.Spec = schemas.OpBegin, 0, nil, ""
	return &op
}

// confirm records that a session runs which was recorded to run, if its driver says that later.
func (s *starter) confirm(ctx context.Context, rec statekv.Versioned) error {
	if rec.Op == nil || rec.Op.Kind != schemas.OpBegin {
		return nil
	}
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TProved, Reason: "its command runs", Set: schemas.Set{Failure: rec.Failure}})
	return err
}

// takeBack undoes the record of a session that never ran: it is tried once more if that may
// help, or else it is what it was, with the failure.
func (s *starter) takeBack(ctx context.Context, a attempt, cause error) error {
	s.attempts.note(a.asked, cause)
	if driver.KindOf(cause) == driver.Transient && a.asked.Op.Attempts < resumeAttempts {
		return cause
	}
	rec := a.rec
	if err := s.startOver(ctx, &rec, a.runs, a.asked.Op.Move); err != nil {
		return err
	}
	return s.failed(ctx, rec, a.runs, cause)
}

// startOver makes the op once more that a crash or an error cut off between the record and
// the session's first instruction. What was asked for since then doesn't apply to a session
// that was never there. A move that it belonged to goes on.
func (s *starter) startOver(ctx context.Context, rec *statekv.Versioned, runs schemas.TransitionType, move *schemas.Move) error {
	op := schemas.NewOp(schemas.OpStart, rec.Seq, time.Now())
	op.Boot = rec.Boot
	t := schemas.Transition{
		Type: schemas.TStartAgain, Reason: "the worker stopped before the first instruction", Op: op.ID, Set: schemas.Set{Op: op},
	}
	if runs == schemas.TResumed {
		t.Type, op.Kind, op.Source, op.Move = schemas.TResumeAgain, schemas.OpResume, rec.Head, move
	}
	if runs == schemas.TStarted && rec.Notice != nil && rec.Head == nil {
		op.Notice, op.Back = rec.Notice, true
	}
	if toBeProved(rec.SessionRecord) {
		op.Fallback, op.WithinMS = rec.Op.Fallback, rec.Op.WithinMS
	}
	if tries, why, known := s.attempts.of(rec.UID); known { // this process doesn't try for ever
		op.Attempts, t.Reason = tries, why
	}
	next, err := s.recorder.swap(ctx, *rec, t)
	if err != nil {
		return err
	}
	*rec = next
	return nil
}

// lost records that a session that should be on this host isn't.
func (s *starter) lost(ctx context.Context, rec statekv.Versioned, cause error) error {
	if toBeProved(rec.SessionRecord) {
		return s.fallBack(ctx, &rec, cause.Error())
	}
	s.log.Error("lost", rec.Logged("err", cause)...)
	f := failure(string(rec.State), cause, 1)
	_, err := s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TLost, Reason: f.Text, Set: schemas.Set{Failure: f}})
	return err
}
