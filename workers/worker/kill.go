package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/snapshots"
)

// killer ends sessions' processes and keeps their records.
type killer struct {
	drivers    drivers
	bus        Bus
	recorder   *recorder
	snapshots  *snapshots.Store
	recordings *recordings.Spool
	policy     func(schemas.SessionRecord) session.Policy
	failpoints *failpoint.Set
	log        *slog.Logger
}

// kill ends a session's processes on request.
func (k *killer) kill(ctx context.Context, rec statekv.Versioned) error {
	d, err := k.drivers.of(rec.SessionRecord)
	if err != nil {
		return err
	}
	if err := saveOutput(ctx, k.snapshots, d, rec.SessionRecord); err != nil {
		k.log.Warn("could not store the last output", rec.Logged("err", err)...)
	}
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return fmt.Errorf("kill session %s: %w", rec.Name(), err)
	}
	if _, err := k.recordings.StoreNow(ctx, rec.UID); err != nil {
		k.log.Warn("could not store the end of the recording yet", rec.Logged("err", err)...)
	}
	k.recordings.Tidy(rec.UID)
	if err := k.failpoints.At(ctx, failpoint.KillStopped); err != nil {
		return err
	}
	reason := cmp.Or(rec.Op.Description, "killed on request")
	exit := &schemas.Exit{Code: 128 + 9, Signal: 9, Reason: reason, At: time.Now().UTC()}
	_, err = k.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TExited, Reason: reason, Set: schemas.Set{Exit: exit}})
	if err != nil {
		return err
	}
	return k.failpoints.At(ctx, failpoint.KillRecorded)
}

// stopUnsuspendable records a kill of a session whose breaker is open, if it or its policy asks
// for that. A session that is in use by now runs on: when it no longer is, a suspend is tried
// once more, and the session is stopped if that fails.
func (k *killer) stopUnsuspendable(ctx context.Context, rec *statekv.Versioned) error {
	if f := rec.Failure; f == nil || !f.Open || onBreaker(rec.SessionRecord, k.policy(rec.SessionRecord)) != schemas.BreakerStop || rec.State != schemas.Running || rec.Op != nil {
		return nil
	}
	late, err := k.bus.Since(ctx, rec.Name(), max(rec.Failure.Seq, rec.Born))
	if err != nil {
		return err
	}
	policy := k.policy(rec.SessionRecord)
	for _, m := range late {
		if session.Undoes(schemas.Op{Idle: true}, m.Source, m.Activity, policy) {
			return nil
		}
	}
	op := schemas.NewOp(schemas.OpKill, 0, time.Now())
	op.Description = fmt.Sprintf("stopped: its last %d suspends failed", rec.Failure.Count)
	next, err := k.recorder.swap(ctx, *rec, schemas.Transition{Type: schemas.TKill, Reason: op.Description, Set: schemas.Set{Op: op}})
	if err == nil {
		*rec = next
	}
	return err
}

// onBreaker says what to do with a session whose breaker has opened: what it was made with, or
// else what its policy says.
func onBreaker(r schemas.SessionRecord, p session.Policy) schemas.OnBreaker {
	return cmp.Or(r.OnBreaker, p.OnBreaker, schemas.BreakerKeep)
}
