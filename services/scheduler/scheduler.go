package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
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
	Log     *slog.Logger
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
	Actor      string // in the transitions that it makes: "scheduler@host"
}

// Scheduler decides; Serve runs it.
type Scheduler struct {
	Options
	heard   chan stream.Heard
	records chan statekv.Versioned
	known   chan struct{} // closed when all records have been read
	asks    chan func(*loop)
	ready   chan struct{}
}

// New makes a scheduler.
func New(o Options) *Scheduler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Bus == nil {
		o.Bus = natsBus{stream.Publisher{JS: o.JS}, o.Names}
	}
	return &Scheduler{
		Options: o,
		heard:   make(chan stream.Heard, 256), records: make(chan statekv.Versioned, 256),
		known: make(chan struct{}), asks: make(chan func(*loop)), ready: make(chan struct{}),
	}
}

// Ready is closed when everything that was stored has been read, and deciding
// begins.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Serve decides until ctx ends, and returns when all that it started has
// stopped.
func (s *Scheduler) Serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.Bus.Activity(ctx, func(h stream.Heard) { send(ctx, s.heard, h) })
	})
	g.Go(func() error {
		return s.Records.Watch(ctx, func(v statekv.Versioned) { send(ctx, s.records, v) }, func() { close(s.known) })
	})
	g.Go(func() error { return s.run(ctx) })
	return g.Wait()
}

func send[T any](ctx context.Context, ch chan<- T, v T) {
	select {
	case ch <- v:
	case <-ctx.Done():
	}
}

// Explain says what stands between a session and its suspend or resume, by the
// same function that decides. ok is false if the scheduler knows no such
// session.
func (s *Scheduler) Explain(ctx context.Context, n schemas.Name) (e schemas.Explanation, ok bool, err error) {
	err = s.ask(ctx, func(l *loop) {
		t, there := l.sessions[n]
		if !there || t.record.UID == "" {
			return
		}
		e, ok = t.explain(time.Now()), true
	})
	return e, ok, err
}

// Idle gives how long each running session has been idle.
func (s *Scheduler) Idle(ctx context.Context) (map[schemas.Name]time.Duration, error) {
	out := map[schemas.Name]time.Duration{}
	err := s.ask(ctx, func(l *loop) {
		now := time.Now()
		for n, t := range l.sessions {
			if t.record.State == schemas.Running {
				out[n] = now.Sub(t.view.IdleSince())
			}
		}
	})
	return out, err
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

func (t *tracked) explain(now time.Time) schemas.Explanation {
	p, _ := session.PolicyFor(t.record.Class, t.record.Idle)
	d := session.Decide(&t.view, p, now)
	e := schemas.Explanation{
		Name: t.record.Name().String(), State: t.record.State, GraceMS: p.Grace.Milliseconds(),
		Blockers: append([]schemas.WaitingFor{}, d.Blockers...), Next: d.Next, Last: schemas.ViewTransition(t.record.SessionRecord),
	}
	if t.record.State == schemas.Running {
		e.IdleSeconds = now.Sub(t.view.IdleSince()).Seconds()
	}
	switch {
	case d.Verdict == session.Suspend:
		e.Text = "it is being suspended: " + d.Reason
	case len(d.Blockers) > 0 && !d.Next.IsZero():
		e.Text = "it is suspended in " + d.Next.Sub(now).Round(100*time.Millisecond).String() + " unless something happens: " + d.Reason
	case len(d.Blockers) > 0:
		e.Text = "it is not suspended: " + d.Reason
	default:
		e.Text = d.Reason
	}
	if f := t.record.Failure; f != nil {
		e.Text += "; last failure (" + f.Op + "): " + f.Text
	}
	return e
}
