package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/rebuild"
)

// collectAt lets garbage come to four times what is in use while everything is read that
// was stored: what a scheduler remembers stays, and going through it again and again would
// take a quarter of the time.
const collectAt = 400

// Scheduler decides about sessions until ctx ends, or stands by while another does.
func Scheduler(ctx context.Context, c SchedulerConfig) error {
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error { return c.serve(ctx, m) })
}

func (c SchedulerConfig) serve(ctx context.Context, m gauges) (err error) {
	usual := debug.SetGCPercent(collectAt)
	name, err := partName(c.Name, "scheduler")
	if err != nil {
		return err
	}
	ctx, g := guarded(ctx, "a scheduler", "scheduler", c.NATS.Creds, c.Log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := connect(ctx, c.NATS, "diapause scheduler "+name, c.Log, g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	m.nats(nc)
	l, err := joined(ctx, nc, c.Process, m)
	if err != nil {
		return err
	}
	s, err := newScheduler(ctx, c.Process, m, l, name, lease.OfficeTerm)
	if err != nil {
		return err
	}
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return s.Serve(ctx) })
	run.Go(func() error { return l.policies.Serve(ctx) })
	run.Go(func() error { return l.orders.Serve(ctx) })
	run.Go(func() error { return backwards(ctx, l.js, l.names) })
	run.Go(func() error {
		select {
		case <-s.Ready():
			g.through()
			debug.SetGCPercent(usual)
			m.started()
			fmt.Fprintf(c.Out, "ready: scheduler %s, %s\n", name, nc.ConnectedUrlRedacted())
		case <-ctx.Done():
		}
		return nil
	})
	return run.Wait()
}

// newScheduler makes the scheduler of a process, with the office of who acts.
func newScheduler(ctx context.Context, p Process, m gauges, l link, name string, term time.Duration) (*scheduler.Scheduler, error) {
	offices, err := lease.OpenOffice(ctx, l.js, l.names, "scheduler")
	if err != nil {
		return nil, err
	}
	return schedulerOn(p, m, l, name, &announced{Lead: &lease.Office{Store: offices, Holder: schemas.HostID(name), Term: term, Log: p.Log}, name: name, out: p.Out}), nil
}

// schedulerOn makes one that acts when lead says so.
func schedulerOn(p Process, m gauges, l link, name string, lead scheduler.Lead) *scheduler.Scheduler {
	s := scheduler.New(scheduler.Options{
		JS: l.js, Names: l.names, Records: l.records, Policies: l.policies, Log: p.Log, Actor: "scheduler@" + name, Failpoints: l.points, Taken: l.intake, Roster: l.know != nil, Orders: l.orders,
		Heard: m.Heard, Lead: lead,
	})
	m.scheduler(s)
	return s
}

// announced prints who holds an office.
type announced struct {
	scheduler.Lead
	name string
	out  io.Writer
	held bool
}

func (s *announced) Serve(ctx context.Context, tell func(bool)) error {
	return s.Lead.Serve(ctx, func(held bool) {
		switch now := time.Now().Format(time.RFC3339); {
		case held:
			fmt.Fprintf(s.out, "scheduler %s decides from now on (%s)\n", s.name, now)
		case s.held:
			fmt.Fprintf(s.out, "scheduler %s stands by, another decides (%s)\n", s.name, now)
		}
		s.held = held
		tell(held)
	})
}

// partName is the one that was given, or one that no other part of the kind has.
func partName(given, kind string) (string, error) {
	if given != "" {
		return given, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", schemas.WithHint(fmt.Errorf("find a name for this %s: %w", kind, err), "--name gives it one")
	}
	name := fmt.Sprintf("%s-%d", host, os.Getpid())
	if !schemas.ValidToken(name) {
		return fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), time.Now().Unix()), nil
	}
	return name, nil
}

// recoverPoll is how often it is looked whether a recovery is over.
const recoverPoll = time.Second

// recovered waits until no recovery of the fleet is under way.
func recovered(ctx context.Context, js jetstream.JetStream, names stream.Names, out io.Writer) error {
	for said := false; ; said = true {
		under, err := rebuild.Recovering(ctx, js, names)
		if err != nil || !under {
			return err
		}
		if !said {
			fmt.Fprintln(out, "the hosts are recovering the records of sessions: nothing is decided before that is over")
		}
		select {
		case <-time.After(recoverPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lowerLooks is how many looks in a row have to find the log shorter than it was.
const lowerLooks = 3

// errBackwards ends a scheduler that knows what the log has forgotten.
var errBackwards = errors.New("stopped: the records of sessions have gone back")

// backwards looks now and then whether the log of records has become shorter. One look
// proves nothing: a server that has lost its place in a cluster answers with the past.
func backwards(ctx context.Context, js jetstream.JetStream, names stream.Names) error {
	tick := time.NewTicker(5 * recoverPoll)
	defer tick.Stop()
	last, lower := uint64(0), 0
	for {
		if s, err := js.Stream(ctx, names.SessionStream()); err == nil {
			now := s.CachedInfo().State.LastSeq
			if lower++; now >= last {
				last, lower = now, 0
			}
			if lower == lowerLooks {
				return schemas.WithHint(fmt.Errorf("%w: %d revisions, after %d", errBackwards, now, last),
					"NATS was put back from a backup: start `diapause up` again, which recovers them, and then this")
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
