package worker

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// interrupter runs ops that have to stop when their session's record moves on, or, for a
// suspend, when activity comes that undoes it.
type interrupter struct {
	bus    Bus
	policy func(schemas.SessionRecord) session.Policy

	mu     sync.Mutex
	notify map[schemas.Name]func(statekv.Versioned) // ops under way, which want to know of new revisions
}

func newInterrupter(bus Bus, policy func(schemas.SessionRecord) session.Policy) *interrupter {
	return &interrupter{bus: bus, policy: policy, notify: map[schemas.Name]func(statekv.Versioned){}}
}

// undone is the error of a suspend that was given up because activity came.
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

// run runs work with a context that is cancelled when the record moves on
// or, for a suspend, activity comes that undoes it. The cause of the
// cancellation (undone, errMoved) is then work's error.
func (t *interrupter) run(ctx context.Context, rec statekv.Versioned, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.onRevision(rec.Name(), func(now statekv.Versioned) {
		// The watch may still be delivering older revisions.
		if now.Version > rec.Version && !sameWork(now.SessionRecord, rec.SessionRecord) {
			cancel(movedTo(now))
		}
	})
	defer t.onRevision(rec.Name(), nil)

	var g errgroup.Group
	listen, stop := context.WithCancel(ctx)
	if rec.Op.Kind == schemas.OpSuspend {
		g.Go(func() error { return t.listen(listen, rec, cancel) })
	}
	err := work(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	stop()
	_ = g.Wait() // listen has cancelled with its error, if it had one
	return err
}

func (t *interrupter) listen(ctx context.Context, rec statekv.Versioned, cancel context.CancelCauseFunc) error {
	policy := t.policy(rec.SessionRecord)
	err := t.bus.Listen(ctx, rec.Name(), heardUpTo(rec), func(m session.Message) {
		if session.Undoes(*rec.Op, m.Source, m.Activity, policy) {
			cancel(undone{m})
		}
	})
	if err != nil && ctx.Err() == nil {
		// Without hearing activity it could suspend a session that is in use.
		cancel(fmt.Errorf("listen for activity of %s: %w", rec.Name(), err))
	}
	return err
}

// heardUpTo gives the last activity that the op's decision knew, at least the end of earlier
// sessions of that name.
func heardUpTo(rec statekv.Versioned) uint64 { return max(rec.Op.Seq, rec.Born) }

// underway reports whether an op of a session that can be interrupted is under way here.
func (t *interrupter) underway(n schemas.Name) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notify[n] != nil
}

// revised tells the op of a session that is under way, if there is one, of a new revision.
func (t *interrupter) revised(v statekv.Versioned) {
	t.mu.Lock()
	fn := t.notify[v.Name()]
	t.mu.Unlock()
	if fn != nil {
		fn(v)
	}
}

func (t *interrupter) onRevision(n schemas.Name, fn func(statekv.Versioned)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fn == nil {
		delete(t.notify, n)
		return
	}
	t.notify[n] = fn
}
