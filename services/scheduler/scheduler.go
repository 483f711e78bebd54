package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Options is what a scheduler is made of.
type Options struct {
	JS      jetstream.JetStream
	Names   stream.Names
	Records Records
	Bus     Bus // that of JS and Names if nil
	// Hosts tell how full they are; those of JS and Names if nil. Without JS none do.
	Hosts Hosts
	// Places are where several that make room agree; those of JS and Names if nil. Without JS
	// this one is alone.
	Places Places
	// Policies say what sessions are held to; what is built in if nil.
	Policies Policies
	Log      *slog.Logger
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
	Actor      string // in the transitions that it makes: "scheduler@host"
	// Lead, if given, says when this scheduler is the one of several that acts; until then
	// it stands by, and knows all that the other does. Without it it always acts.
	Lead Lead
	// Heard, if given, is called for all that is heard, before it is decided on: to count.
	Heard func(stream.Heard)
	// Taken, if given, delivers false when activity isn't taken any more, and true when it
	// is again, or when some was lost. Meanwhile silence says nothing: no session is suspended for
	// it, and every grace starts again with true. Without it the scheduler finds out by itself what the
	// server drops, where Bus is nil.
	Taken <-chan bool
	// Orders, if given, say which hosts are cordoned: what is woken there gets another host first.
	Orders *hostkv.Cache
	// Roster has the names of all sessions kept for Known.
	Roster bool
}

// Lead says which of several schedulers acts. *lease.Office is one.
type Lead interface {
	// Serve calls tell whenever that changes, until ctx ends.
	Serve(ctx context.Context, tell func(held bool)) error
}

var _ Lead = (*lease.Office)(nil)

// Scheduler decides; Serve runs it.
type Scheduler struct {
	Options
	intake  stream.Counts
	heard   *inbox[stream.Heard]
	records *inbox[statekv.Glance]
	missed  *missed
	known   chan struct{} // closed when all records have been read
	asks    chan func(*loop)
	leads   chan bool
	hosts   chan schemas.Host
	active  atomic.Bool
	apart   atomic.Bool // it is alone with its places after all
	places  func()      // has places followed, from the first that is asked for
	placing chan struct{}
	ready   chan struct{}
	roster  *roster // nil without Options.Roster
	stirred chan struct{}
}

// New makes a scheduler.
func New(o Options) *Scheduler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Bus == nil {
		o.Bus = newBus(o)
	}
	if o.Policies == nil {
		o.Policies = builtin{}
	}
	if o.Hosts == nil && o.JS != nil {
		o.Hosts = newBus(o)
	}
	if o.Places == nil && o.JS != nil {
		o.Places = newBus(o)
	}
	placing := make(chan struct{})
	s := &Scheduler{
		Options: o, placing: placing, places: sync.OnceFunc(func() { close(placing) }),
		heard: newInbox[stream.Heard](), records: newInbox[statekv.Glance](), missed: newMissed(),
		known: make(chan struct{}), asks: make(chan func(*loop)), leads: make(chan bool), hosts: make(chan schemas.Host), ready: make(chan struct{}), stirred: make(chan struct{}, 1),
	}
	if o.Roster {
		s.roster = newRoster()
	}
	return s
}

// Ready is closed when everything that was stored has been read: from then on it
// decides, or could.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Serve decides until ctx ends, and returns when all that it started has
// stopped.
func (s *Scheduler) Serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.Bus.Activity(ctx, func(h stream.Heard) {
			s.intake.Hear(h)
			if s.Heard != nil {
				s.Heard(h)
			}
			s.heard.put(ctx, h)
		})
	})
	g.Go(func() error {
		return s.Records.Glances(ctx, func(g statekv.Glance) { s.found(ctx, g) }, func() { close(s.known) })
	})
	if s.Hosts != nil {
		g.Go(func() error { return s.Hosts.Hosts(ctx, func(h schemas.Host) { send(ctx, s.hosts, h) }) })
	}
	if s.Places != nil {
		g.Go(func() error { return s.followPlaces(ctx) })
	}
	if s.Lead != nil {
		g.Go(func() error { return s.Lead.Serve(ctx, func(held bool) { send(ctx, s.leads, held) }) })
	}
	g.Go(func() error { return s.run(ctx) })
	return g.Wait()
}

// Active reports whether this scheduler is the one that acts.
func (s *Scheduler) Active() bool { return s.active.Load() }

// Intake gives what was heard since the scheduler was made.
func (s *Scheduler) Intake() schemas.Intake { return s.intake.Now() }

func send[T any](ctx context.Context, ch chan<- T, v T) {
	select {
	case ch <- v:
	case <-ctx.Done():
	}
}

func (s *Scheduler) ask(ctx context.Context, fn func(*loop)) error {
	done := make(chan struct{})
	select {
	case s.asks <- func(l *loop) { fn(l); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
