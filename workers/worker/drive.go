package worker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

var (
	// errMoved says that the record no longer asks for what is being done.
	errMoved = errors.New("the session's record has moved on")
	// errLater says that the op has to wait for something else; the sweep comes
	// back to it.
	errLater = errors.New("not yet")
)

// drive works through what the record of one session asks of this host. It
// returns nil when there is nothing left to do; an error means that it has to
// be called again.
func (w *Worker) drive(ctx context.Context, n schemas.Name) error {
	var last statekv.Revision
	for {
		rec, err := w.Records.Get(ctx, n)
		if errors.Is(err, statekv.ErrNoSession) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.evictFormer(ctx, rec); err != nil {
			return err
		}
		w.releaseKept(ctx, rec)
		if rec.Host != w.Host {
			return w.evict(ctx, rec)
		}
		if err := w.reconcile(ctx, &rec); err != nil {
			return err
		}
		if err := w.stopUnsuspendable(ctx, &rec); err != nil {
			return err
		}
		if rec.Op == nil {
			return nil
		}
		err = w.step(ctx, rec)
		moved := errors.Is(err, errMoved) || errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) || errors.Is(err, errStill)
		if moved && rec.Rev != last { // the same one again would be a circle
			last = rec.Rev
			w.Log.Debug("the record moved on", "session", n.String(), "err", err)
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
func (w *Worker) step(ctx context.Context, rec statekv.Versioned) error {
	if _, err := w.driverFor(rec.SessionRecord); err != nil && ends(rec.Op.Kind) {
		w.Log.Error("a session can't be ended yet", "session", rec.Name().String(), "err", err)
		return errLater
	}
	if err := w.Failpoints.At(ctx, failpoint.WorkerFound); err != nil {
		return err
	}
	if rec.Op.Claim != w.claim || rec.Op.Kind == schemas.OpResume { // attempts of a resume are counted
		next, err := w.swapOwned(ctx, rec, schemas.Transition{
			Type: schemas.TClaimed, Reason: "host " + string(w.Host) + " works on it", Set: schemas.Set{Claim: w.claim},
		})
		if err != nil {
			return err
		}
		rec = next
	}
	if err := w.Failpoints.At(ctx, failpoint.WorkerClaimed); err != nil {
		return err
	}
	switch rec.Op.Kind {
	case schemas.OpStart:
		return w.start(ctx, rec)
	case schemas.OpSuspend, schemas.OpCheckpoint:
		return w.capture(ctx, rec)
	case schemas.OpReap:
		return w.reap(ctx, rec)
	case schemas.OpResume:
		return w.resume(ctx, rec)
	case schemas.OpProve:
		return w.prove(ctx, rec)
	case schemas.OpBegin: // its driver has it, or this wouldn't be asked
		return w.hasBegun(ctx, rec)
	case schemas.OpKill:
		return w.kill(ctx, rec)
	case schemas.OpRemove:
		return w.remove(ctx, rec)
	}
	return fmt.Errorf("session %s: op of unknown kind %q; is this worker older than the scheduler?", rec.Name(), rec.Op.Kind)
}

// ends reports whether an op only removes processes: without its driver it has to
// wait, while the others fail.
func ends(kind string) bool {
	return kind == schemas.OpReap || kind == schemas.OpKill || kind == schemas.OpRemove
}

// beginning gives the context for the swap that comes before a session's first
// instruction: a worker that is being stopped waits for its answer, since half an
// answer would cost the session its place.
func beginning(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// swapOwned makes a transition that belongs to rec's op. If someone else has
// changed the record without changing uid, epoch or op, it is made on top of
// that; else it is errMoved.
func (w *Worker) swapOwned(ctx context.Context, rec statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	t.Actor = "worker@" + string(w.Host)
	if rec.Op != nil {
		t.Op = rec.Op.ID
	}
	for {
		next, err := w.Records.Swap(ctx, rec, t)
		if err == nil {
			w.keep(next.SessionRecord)
		}
		if !errors.Is(err, statekv.ErrConflict) {
			return next, err
		}
		now, err := w.Records.Get(ctx, rec.Name())
		if err != nil {
			return statekv.Versioned{}, err
		}
		if !sameWork(now.SessionRecord, rec.SessionRecord) {
			return statekv.Versioned{}, fmt.Errorf("session %s: %w: now %s, epoch %d", rec.Name(), errMoved, now.State, now.Epoch)
		}
		rec = now
	}
}

func sameWork(a, b schemas.SessionRecord) bool {
	return a.UID == b.UID && a.Epoch == b.Epoch && a.Host == b.Host && opID(a) == opID(b)
}

func opID(r schemas.SessionRecord) string {
	if r.Op == nil {
		return ""
	}
	return r.Op.ID
}

// spec opens the sealed spec of a session.
func (w *Worker) spec(r schemas.SessionRecord) (schemas.Spec, error) {
	data, err := seal.Unseal(r.Spec, w.openers()...)
	if err != nil {
		return schemas.Spec{}, &driver.Error{Kind: driver.Refused,
			Text: fmt.Sprintf("host %s can't open how session %s is to run; has its identity changed?", w.Host, r.Name()), Err: err}
	}
	var s schemas.Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return schemas.Spec{}, &driver.Error{Kind: driver.Refused, Text: "the spec of session " + r.Name().String() + " is not one", Err: err}
	}
	return s, nil
}

// failure describes err for the record. count is how often it has failed in a
// row, this time included.
func failure(kind string, err error, count int) *schemas.Failure {
	return &schemas.Failure{Text: err.Error(), Op: kind, Kind: string(driver.KindOf(err)), Count: count, At: time.Now().UTC()}
}

// event publishes what happened; losing one is logged, and stops nothing.
func (w *Worker) event(ctx context.Context, r schemas.SessionRecord, kind, format string, args ...any) {
	e := schemas.Event{
		Type: kind, Tenant: r.Tenant, Session: r.Session, UID: r.UID, Op: opID(r),
		Text: fmt.Sprintf(format, args...), Actor: "worker@" + string(w.Host), At: time.Now().UTC(),
	}
	if err := w.Bus.Event(ctx, e); err != nil {
		w.Log.Warn("event not published", "session", r.Name().String(), "event", e.Text, "err", err)
	}
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return data, nil
}

func encodeKey(k []byte) string { return base64.StdEncoding.EncodeToString(k) }
