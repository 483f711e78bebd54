package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Records keeps the session records, which change by compare-and-swap alone.
// *statekv.Store is one, and says what each method promises.
type Records interface {
	Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
	Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error
}

var _ Records = (*statekv.Store)(nil)

// Bus is what a scheduler hears and says besides the records. Options.JS gives the
// one of every day.
type Bus interface {
	// Activity gives the last word of every kind of every session, then what comes,
	// one after the other until ctx ends, and says of every time in which nothing
	// could be heard.
	Activity(ctx context.Context, fn func(stream.Heard)) error
	// Command wakes the worker of a host for a session.
	Command(ctx context.Context, r schemas.SessionRecord) error
}

// asker is implemented by a Bus that says up to when all activity was heard when it is asked to.
// Others say so again and again, or never.
type asker interface {
	// Ask returns at once; several that come before one answer are one.
	Ask()
}

// Hosts tell how full they are.
type Hosts interface {
	// Hosts gives what each host said of itself last, then what they say, one after the
	// other until ctx ends.
	Hosts(ctx context.Context, fn func(schemas.Host)) error
}

// Places are where all schedulers publish which slots they reserve, so that none is given
// twice.
type Places interface {
	// Place says something of one.
	Place(ctx context.Context, p schemas.Place) error
	// Places gives what was said of each, then what is, in one order for all, until ctx ends.
	Places(ctx context.Context, fn func(schemas.Place)) error
}

// natsBus is the Bus of a NATS server.
type natsBus struct {
	stream.Publisher
	names   stream.Names
	probing bool          // as of stream.Activity
	asks    chan struct{} // one place
}

func newBus(o Options) natsBus {
	return natsBus{stream.Publisher{JS: o.JS}, o.Names, o.Taken == nil, make(chan struct{}, 1)}
}

// Ask implements asker.
func (b natsBus) Ask() {
	select {
	case b.asks <- struct{}{}:
	default:
	}
}

func (b natsBus) Activity(ctx context.Context, fn func(stream.Heard)) error {
	g, ctx := errgroup.WithContext(ctx)
	var one sync.Mutex
	tell := func(h stream.Heard) {
		one.Lock()
		defer one.Unlock()
		fn(h)
	}
	g.Go(func() error { return stream.Activity(ctx, b.JS, b.names, b.asks, b.probing, tell) })
	g.Go(func() error { return stream.Malformed(ctx, b.JS, tell) })
	return g.Wait()
}

// Place says something of a place.
func (b natsBus) Place(ctx context.Context, p schemas.Place) error {
	return b.Publisher.Place(ctx, b.names, p)
}

// Places gives what is said of places.
func (b natsBus) Places(ctx context.Context, fn func(schemas.Place)) error {
	return stream.Places(ctx, b.JS, b.names, fn)
}

// Hosts gives what hosts say of themselves. What can't be read is left out.
func (b natsBus) Hosts(ctx context.Context, fn func(schemas.Host)) error {
	s, err := b.JS.Stream(ctx, "KV_"+b.names.Hosts())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bucket %s: %w", b.names.Hosts(), err)
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	return stream.Consume(ctx, b.JS, s, cfg, func(msg *nats.Msg, _ *jetstream.MsgMetadata, _ bool) error {
		var h schemas.Host
		if json.Unmarshal(msg.Data, &h) == nil && h.Host != "" {
			fn(h)
		}
		return nil
	}, func() {}, func() {})
}
