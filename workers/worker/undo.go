package worker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// notified is a revision that came while an op was under way.
type notified = statekv.Versioned

// undone is why a suspend under way is given up: activity came.
type undone struct{ session.Message }

func (u undone) Error() string {
	what := string(u.Source.Kind)
	if u.Source.Key != "" {
		what += "." + u.Source.Key
	}
	return "activity came: " + what
}

func (u undone) evidence() *schemas.Evidence {
	return &schemas.Evidence{Seq: u.Seq, Activity: string(u.Source.Kind), LastAt: u.At}
}

// guarded runs work with a context that is cancelled when the record moves on
// or, for a suspend, activity comes that undoes it. The cause of the
// cancellation (undone, errMoved) is then work's error.
func (w *Worker) guarded(ctx context.Context, rec statekv.Versioned, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.onRevision(rec.Name(), func(now notified) {
		// The watch may still be delivering what came before.
		if now.Version > rec.Version && !sameWork(now.SessionRecord, rec.SessionRecord) {
			cancel(fmt.Errorf("session %s: %w: now %s, epoch %d", rec.Name(), errMoved, now.State, now.Epoch))
		}
	})
	defer w.onRevision(rec.Name(), nil)

	var g errgroup.Group
	listen, stop := context.WithCancel(ctx)
	if rec.Op.Kind == schemas.OpSuspend {
		g.Go(func() error { return w.listen(listen, rec, cancel) })
	}
	err := work(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	stop()
	_ = g.Wait() // listen has cancelled with its error, if it had one
	return err
}

func (w *Worker) listen(ctx context.Context, rec statekv.Versioned, cancel context.CancelCauseFunc) error {
	policy := w.policyOf(rec.SessionRecord)
	err := w.Bus.Listen(ctx, rec.Name(), heardUpTo(rec), func(m session.Message) {
		if session.Undoes(*rec.Op, m.Source, m.Activity, policy) {
			cancel(undone{m})
		}
	})
	if err != nil && ctx.Err() == nil {
		// Deaf, it could suspend what is in use.
		cancel(fmt.Errorf("listen for activity of %s: %w", rec.Name(), err))
	}
	return err
}

// heardUpTo is the last activity that the op's decision knew, and none of an
// earlier session of that name.
func heardUpTo(rec statekv.Versioned) uint64 { return max(rec.Op.Seq, rec.Born) }

// captures reports whether a suspend or a checkpoint of a session is under way here.
func (w *Worker) captures(n schemas.Name) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.undoing[n] != nil
}

func (w *Worker) onRevision(n schemas.Name, fn func(notified)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fn == nil {
		delete(w.undoing, n)
		return
	}
	w.undoing[n] = fn
}

// policyOf is what a session is held to.
func (w *Worker) policyOf(r schemas.SessionRecord) session.Policy {
	if w.Policy != nil {
		return w.Policy(r)
	}
	p, _ := session.PolicyFor(r.Class, r.Idle)
	return p
}
