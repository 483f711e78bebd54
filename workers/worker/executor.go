package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// errLater says that the op has to wait for something else; the sweep comes back to it.
var errLater = errors.New("not yet")

// executor executes what the record of a session asks of this host.
type executor struct {
	host       schemas.HostID
	claim      string // of this process
	drivers    drivers
	recorder   *recorder
	failpoints *failpoint.Set
	log        *slog.Logger

	hosting    *hosting
	retained   *retained
	reconciler *reconciler
	starter    *starter
	capturer   *capturer
	killer     *killer
	remover    *remover
	rewriter   *rewriter
	leaver     *leaver
}

// drive works through what the record of one session asks of this host. It
// returns nil when there is nothing left to do; an error means that it has to
// be called again.
func (x *executor) drive(ctx context.Context, n schemas.Name) error {
	var last statekv.Revision
	for {
		rec, err := x.recorder.records.Get(ctx, n)
		if errors.Is(err, statekv.ErrNoSession) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.hosting.evictFormer(ctx, rec); err != nil {
			return err
		}
		x.retained.release(ctx, rec)
		if rec.Host != x.host {
			return x.hosting.evict(ctx, rec)
		}
		if err := x.reconciler.run(ctx, &rec); err != nil {
			return err
		}
		if err := x.killer.stopUnsuspendable(ctx, &rec); err != nil {
			return err
		}
		if err := x.leaver.comeBack(ctx, &rec); err != nil {
			return err
		}
		if rec.Op == nil || rec.Op.Unplaced { // the fleet chooses a host first
			return nil
		}
		if x.leaver.holds(rec.SessionRecord) {
			return nil
		}
		err = x.step(ctx, rec)
		moved := errors.Is(err, errMoved) || errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) || errors.Is(err, errFrozen)
		if moved && rec.Rev != last { // the same revision once more would be a circle
			last = rec.Rev
			x.log.Debug("the record moved on", rec.Logged("err", err)...)
			continue
		}
		if errors.Is(err, errLater) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// step claims the record's op and does it.
func (x *executor) step(ctx context.Context, rec statekv.Versioned) error {
	if _, err := x.drivers.of(rec.SessionRecord); err != nil && ends(rec.Op.Kind) {
		x.log.Error("a session can't be ended yet", rec.Logged("err", err)...)
		return errLater
	}
	if err := x.failpoints.At(ctx, failpoint.WorkerFound); err != nil {
		return err
	}
	// Attempts of a resume are counted; each of a rewrite has a snapshot of its own.
	if rec.Op.Claim != x.claim || rec.Op.Kind == schemas.OpResume || rec.Op.Kind == schemas.OpRewrite {
		next, err := x.recorder.swap(ctx, rec, schemas.Transition{
			Type: schemas.TClaimed, Reason: "host " + string(x.host) + " works on it", Set: schemas.Set{Claim: x.claim},
		})
		if err != nil {
			return err
		}
		rec = next
	}
	if err := x.failpoints.At(ctx, failpoint.WorkerClaimed); err != nil {
		return err
	}
	switch rec.Op.Kind {
	case schemas.OpStart:
		return x.starter.start(ctx, rec)
	case schemas.OpSuspend, schemas.OpCheckpoint:
		return x.capturer.capture(ctx, rec)
	case schemas.OpReap:
		return x.capturer.reap(ctx, rec)
	case schemas.OpResume:
		return x.starter.resume(ctx, rec)
	case schemas.OpProve:
		return x.starter.prove(ctx, rec)
	case schemas.OpBegin: // its driver has it, or this wouldn't be asked
		return x.starter.confirm(ctx, rec)
	case schemas.OpKill:
		return x.killer.kill(ctx, rec)
	case schemas.OpRemove:
		return x.remover.remove(ctx, rec)
	case schemas.OpRewrite:
		return x.rewriter.rewrite(ctx, rec)
	}
	return schemas.WithHint(fmt.Errorf("session %s: op of unknown kind %q", rec.Name(), rec.Op.Kind), "update Diapause on host %s: the scheduler is newer", x.host)
}

// ends reports whether an op only removes processes: without its driver it has to
// wait, while the others fail.
func ends(kind string) bool {
	return kind == schemas.OpReap || kind == schemas.OpKill || kind == schemas.OpRemove
}
