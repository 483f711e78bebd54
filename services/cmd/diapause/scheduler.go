package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/worker"
)

const schedulerHelp = `Decide which sessions are suspended and which are woken, and nothing else, until it
is interrupted: beside a "diapause up" that uses the same NATS server, whose own
scheduler is one, too.

One of them acts. The others stand by and know all that it knows: one takes over at
once when the one that acts is stopped, within some seconds when it dies. It needs no
root, no store and no data directory.`

// schedulerFlags are the flags of scheduler.
type schedulerFlags struct {
	nats    string
	name    string
	metrics string
	verbose bool
}

func schedulerCommand(c *client) *cobra.Command {
	var f schedulerFlags
	cmd := &cobra.Command{
		Use: "scheduler", Short: "Decide, and stand by for others who do", Long: schedulerHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.nats == "" {
				return usagef("scheduler: name the NATS server with --nats, and its credentials with --creds")
			}
			if f.name != "" && !schemas.ValidToken(f.name) {
				return usagef("scheduler: --name %q: want 1 to 64 of A-Z a-z 0-9 _ -", f.name)
			}
			return watched(cmd.Context(), f.metrics, func(ctx context.Context, m gauges) error { return decide(ctx, c, f, m) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.StringVar(&f.name, "name", "", "who it is among the schedulers; a name of its own, the same after a restart (default the machine's and the process's)")
	metricsFlag(cmd, &f.metrics)
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log what is decided, too")
	return cmd
}

// collectAt lets garbage come to four times what is in use while everything is read that
// was stored: what a scheduler remembers stays, and going through it again and again would
// take a quarter of the time.
const collectAt = 400

func decide(ctx context.Context, c *client, f schedulerFlags, m gauges) (err error) {
	usual := debug.SetGCPercent(collectAt)
	log := newLog(f.verbose)
	name, err := schedulerName(f.name)
	if err != nil {
		return err
	}
	ctx, g := guarded(ctx, "a scheduler", "scheduler", c.creds, log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := natsconn.Connect(ctx, f.nats, c.creds, "diapause scheduler "+name, nats.MaxReconnects(-1), g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	m.nats(nc)
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	names := stream.NamesWith("")
	if _, err := prepare(ctx, js, names, true); err != nil {
		return err
	}
	if err := recovered(ctx, js, names); err != nil {
		return err
	}
	records, err := statekv.Open(ctx, js, names)
	if err != nil {
		return err
	}
	records.Swapped = m.Swapped
	policies, err := policiesOf(ctx, js, names, log)
	if err != nil {
		return err
	}
	s, err := schedulerOf(ctx, js, names, records, policies, schemas.HostID(name), nil, m, log)
	if err != nil {
		return err
	}
	s.Lead = &saying{Lead: s.Lead, who: name}
	m.Intake(s.Intake)
	m.health.Begun("scheduler", s.Ready(), "it is reading what was said of the sessions")
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return s.Serve(ctx) })
	run.Go(func() error { return policies.Serve(ctx) })
	run.Go(func() error { return backwards(ctx, js, names) })
	run.Go(func() error {
		select {
		case <-s.Ready():
			g.through()
			debug.SetGCPercent(usual)
			m.started()
			fmt.Printf("ready: scheduler %s, %s\n", name, nc.ConnectedUrlRedacted())
		case <-ctx.Done():
		}
		return nil
	})
	return run.Wait()
}

// schedulerOf makes the scheduler of a process, with the office of who acts.
func schedulerOf(ctx context.Context, js jetstream.JetStream, names stream.Names, records *statekv.Store, policies *policykv.Cache, name schemas.HostID, points *failpoint.Set, m gauges, log *slog.Logger) (*scheduler.Scheduler, error) {
	offices, err := lease.OpenOffice(ctx, js, names, "scheduler")
	if err != nil {
		return nil, err
	}
	s := scheduler.New(scheduler.Options{
		JS: js, Names: names, Records: records, Policies: policies, Log: log, Actor: "scheduler@" + string(name), Failpoints: points,
		Heard: m.Heard, Lead: &lease.Office{Store: offices, Holder: name, Log: log},
	})
	m.scheduler(s)
	m.Gauge("scheduler_active", "Whether the scheduler of this process is the one that acts; the others stand by.", func() float64 {
		if s.Active() {
			return 1
		}
		return 0
	})
	return s, nil
}

// saying is an office of which it is said who holds it.
type saying struct {
	scheduler.Lead
	who  string
	told bool // that it decides
}

func (s *saying) Serve(ctx context.Context, tell func(bool)) error {
	return s.Lead.Serve(ctx, func(held bool) {
		switch now := time.Now().Format(time.RFC3339); {
		case held:
			fmt.Printf("scheduler %s decides from now on (%s)\n", s.who, now)
		case s.told:
			fmt.Printf("scheduler %s stands by, another decides (%s)\n", s.who, now)
		}
		s.told = held
		tell(held)
	})
}

// schedulerName is the one that was given, or one that no other has.
func schedulerName(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find a name for this scheduler (--name gives it one): %w", err)
	}
	name := fmt.Sprintf("%s-%d", host, os.Getpid())
	if !schemas.ValidToken(name) {
		return fmt.Sprintf("scheduler-%d-%d", os.Getpid(), time.Now().Unix()), nil
	}
	return name, nil
}

// recoverPoll is how often it is looked whether a recovery is over.
const recoverPoll = time.Second

// recovered waits until no recovery of the fleet is under way.
func recovered(ctx context.Context, js jetstream.JetStream, names stream.Names) error {
	for said := false; ; said = true {
		under, err := worker.Recovering(ctx, js, names)
		if err != nil || !under {
			return err
		}
		if !said {
			fmt.Println("the hosts are recovering the records of sessions: nothing is decided before that is over")
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
var errBackwards = errors.New("stopped: the records of sessions have gone back (was NATS restored from a backup?); start `diapause up` again, which recovers them, and then this")

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
				return fmt.Errorf("%w: %d revisions, after %d", errBackwards, now, last)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
