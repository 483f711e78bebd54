package simulation

import (
	"context"
	"errors"
	"time"
)

// life is one process, from its start until it is killed. What is on its way when
// that happens may still arrive; nothing follows it.
type life struct {
	w    *world
	gone chan struct{} // closed when it is killed
	stop context.CancelFunc
	done chan error
}

var errGone = errors.New("the process was killed")

// step is the time that something takes on its way. A process that was killed never
// comes back from it, until the world ends.
func (l *life) step(ctx context.Context) error {
	t := time.NewTimer(l.w.delay())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-l.gone:
	}
	select {
	case <-l.gone:
		<-l.w.end
		return errGone
	default:
		return ctx.Err()
	}
}

// begin runs a part as a process of its own, and waits until it is ready.
func (w *world) begin(serve func(context.Context, *life) (func(context.Context) error, <-chan struct{})) *life {
	ctx, stop := context.WithCancel(context.Background())
	l := &life{w: w, gone: make(chan struct{}), stop: stop, done: make(chan error, 1)}
	run, ready := serve(ctx, l)
	go func() { l.done <- run(ctx) }()
	w.lives = append(w.lives, l)
	select {
	case <-ready:
	case err := <-l.done:
		w.t.Fatalf("a part ended: %v", err)
	case <-time.After(time.Hour):
		w.t.Fatal("a part isn't ready after an hour")
	}
	return l
}

// kill ends a process at once.
func (l *life) kill() { close(l.gone) }
