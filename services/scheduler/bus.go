package scheduler

import (
	"context"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Records keeps the session records, which change by compare-and-swap alone.
// *statekv.Store is one, and says what each method promises.
type Records interface {
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
}

var _ Records = (*statekv.Store)(nil)

// Bus is what a scheduler hears and says besides the records. Options.JS gives the
// one of every day.
type Bus interface {
	// Activity gives the last word of every kind of every session, then what comes,
	// until ctx ends, and says of every time in which nothing could be heard.
	Activity(ctx context.Context, fn func(stream.Heard)) error
	// Command wakes the worker of a host for a session.
	Command(ctx context.Context, host schemas.HostID, n schemas.Name, c schemas.Command) error
}

// natsBus is the Bus of a NATS server.
type natsBus struct {
	stream.Publisher
	names stream.Names
}

func (b natsBus) Activity(ctx context.Context, fn func(stream.Heard)) error {
	g, ctx := errgroup.WithContext(ctx)
	gaps := make(chan struct{})
	all := make(chan stream.Heard)
	g.Go(func() error {
		return stream.Activity(ctx, b.JS, b.names, func(h stream.Heard) { send(ctx, all, h) })
	})
	g.Go(func() error {
		b.watchConnection(ctx, gaps)
		return nil
	})
	g.Go(func() error {
		for {
			select {
			case h := <-all:
				fn(h)
			case <-gaps:
				fn(stream.Heard{Gap: true})
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// watchConnection tells of every time that the connection was lost and is back:
// readers of a stream go on by themselves, and would not say so.
func (b natsBus) watchConnection(ctx context.Context, gaps chan<- struct{}) {
	nc := b.JS.Conn()
	back := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(back)
	for {
		select {
		case _, ok := <-back:
			if !ok {
				return // closed for good
			}
			send(ctx, gaps, struct{}{})
		case <-ctx.Done():
			return
		}
	}
}
