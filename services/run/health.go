package run

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/metrics"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/services/trim"
	"github.com/diapause/diapause/workers/worker"
)

// gauges are what a process counts and how its parts are.
type gauges struct {
	*metrics.Meter
	health *metrics.Health
	loops  *metrics.Health // what has to answer, or the process hangs
}

// watched runs a part with its metrics served beside it: from before it begins, so that
// one that doesn't get ready can say why. What it held at its busiest is given back when it rests.
func watched(ctx context.Context, p Process, part func(context.Context, gauges) error) error {
	m := gauges{metrics.New(p.Version), metrics.NewHealth(), metrics.NewHealth()}
	m.health.Set("start", func(context.Context) string {
		return "it is being started, or recovers the records of sessions: what it prints says which"
	})
	supervised := func(ctx context.Context) error {
		return m.supervised(ctx, func(ctx context.Context) error { return part(ctx, m) })
	}
	beside := []func(context.Context) error{trim.Serve}
	if p.Metrics != "" {
		srv, err := metrics.Listen(ctx, p.Metrics, m.Meter, m.health, p.Version)
		if err != nil {
			return usagef("%v", err)
		}
		fmt.Fprintf(p.Out, "metrics: %s/metrics, /healthz, /readyz\n", srv.URL())
		beside = append(beside, srv.Serve)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, serving := errgroup.WithContext(ctx)
	for _, serve := range beside {
		g.Go(func() error { return serve(serving) })
	}
	g.Go(func() error {
		defer stop()
		return supervised(serving)
	})
	return g.Wait()
}

// store counts the calls to the store of images, and has it be asked how it is.
func (m gauges) store(to objectstore.Store) objectstore.Store {
	s := m.Store(to)
	m.health.Set("store", func(ctx context.Context) string { return storeHealth(ctx, s) })
	return s
}

// nowhere is a name that no object has.
const nowhere = "health/nothing"

// storeHealth says what is wrong with the store, if its last call failed: it is asked
// again, for something that isn't there, as the call may have been long ago.
func storeHealth(ctx context.Context, s *metrics.Store) string {
	since, failed := s.Last()
	if failed == nil {
		return ""
	}
	if r, err := s.Get(ctx, nowhere, 0, -1); err == nil {
		_ = r.Close() // what was read doesn't count
	}
	if _, again := s.Last(); again == nil {
		return ""
	}
	return fmt.Sprintf("the store of images fails since %s: %v", since.Format(time.RFC3339), failed)
}

// nats shows the connection to NATS.
func (m gauges) nats(nc *nats.Conn) {
	m.Gauge("nats_connected", "Whether this process is connected to NATS.", func() float64 {
		if nc.IsConnected() {
			return 1
		}
		return 0
	})
	m.Count("nats_reconnects_total", "Times that the connection to NATS was lost and came back.", func() uint64 { return nc.Stats().Reconnects })
	m.health.Set("nats", func(context.Context) string {
		if nc.IsConnected() {
			return ""
		}
		return "not connected to NATS"
	})
}

// gateway shows what is asked over HTTP.
func (m gauges) gateway(g *gateway.Gateway) {
	m.CountBy("http_requests_total", "Requests over HTTP that were answered, by the class of their status: 2xx, 4xx, ….", "status", g.Answered)
	m.Gauge("http_streams", "Streams of events over HTTP that are open.", func() float64 { return float64(g.Streams()) })
}

// lease shows the lease of this host.
func (m gauges) lease(h *lease.Holder) {
	m.CountBy("lease_renewals_total", "Renewals of this host's lease, by outcome: stored, missed.", "outcome", func() map[string]uint64 {
		stored, missed := h.Renewals()
		return map[string]uint64{"stored": stored, "missed": missed}
	})
	left := func() time.Duration { return h.Last().Until.Sub(lease.Now()) }
	m.Gauge("lease_remaining_seconds", "Time for which sessions of this host may go on if no renewal is stored; below 0 if they may not.", func() float64 { return left().Seconds() })
	m.health.Set("lease", func(context.Context) string {
		switch {
		case h.Last().Incarnation == 0:
			return "this host's lease isn't taken yet"
		case left() <= 0:
			return "this host's lease was not renewed in time: its sessions may be taken over"
		}
		return ""
	})
}

// depthWait is how long a scrape waits for a scheduler that is busy.
const depthWait = time.Second

// scheduler shows what a scheduler has in hand. One that doesn't answer shows no values.
func (m gauges) scheduler(s *scheduler.Scheduler) {
	m.GaugeBy("scheduler_sessions", "Sessions by what the scheduler has to do about them: known (all of them), fresh (to be decided about at once), timed (at a known time), waiting (their suspend is due and waits for room on their host), going (their suspend is under way), held_up (to be resumed, their tenant's quota has no room).", "what", func() map[string]float64 {
		ctx, cancel := context.WithTimeout(context.Background(), depthWait)
		defer cancel()
		d, err := s.Backlog(ctx)
		if err != nil {
			return nil
		}
		return map[string]float64{"known": float64(d.Sessions), "fresh": float64(d.Fresh), "timed": float64(d.Timed), "waiting": float64(d.Waiting), "going": float64(d.Going), "held_up": float64(d.Waking)}
	})
	m.Gauge("scheduler_behind_seconds", "How long ago all was heard that services had said; above 2 nothing is suspended.", func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), depthWait)
		defer cancel()
		d, err := s.Backlog(ctx)
		if err != nil {
			return math.NaN()
		}
		return d.Behind.Seconds()
	})
	m.Gauge("scheduler_active", "Whether the scheduler of this process is the one that acts; the others stand by.", func() float64 {
		if s.Active() {
			return 1
		}
		return 0
	})
	m.Intake(s.Intake)
	m.health.ReadyOn("scheduler", s.Ready(), "it is reading what was said of the sessions")
	m.schedulerAnswers(s)
}

// ofWorker shows what a worker knows itself.
func (m gauges) ofWorker(w *worker.Worker) {
	m.Gauge("host_working_sessions", "Sessions that this host is doing something to just now.", func() float64 { return float64(w.Counts().Working) })
	m.HostSessions(func() map[schemas.State]int { return w.Counts().Hosted })
	m.lease(w.Lease)
	m.health.ReadyOn("worker", w.Ready(), "it is finding its sessions again")
	m.answers("worker", func(context.Context) error {
		w.Counts()
		return nil
	})
}

// disks shows the room on the disk of a data directory, where sessions' files are and, with the embedded
// server, their records; and on that of a store which is a directory elsewhere.
func (m gauges) disks(data, store string) {
	of := map[string]string{"data": data}
	if path, ok := strings.CutPrefix(store, "dir://"); ok {
		of["store"] = path
	}
	room := func(bytes func(unix.Statfs_t) uint64) func() map[string]float64 {
		return func() map[string]float64 {
			out := map[string]float64{}
			for disk, path := range of {
				var fs unix.Statfs_t
				if unix.Statfs(path, &fs) == nil {
					out[disk] = float64(bytes(fs))
				}
			}
			return out
		}
	}
	m.GaugeBy("disk_free_bytes", "What may still be written to a disk: that of the data directory, or of the store.", "disk", room(func(fs unix.Statfs_t) uint64 { return fs.Bfree * uint64(fs.Bsize) }))
	m.GaugeBy("disk_size_bytes", "The size of that disk.", "disk", room(func(fs unix.Statfs_t) uint64 { return fs.Blocks * uint64(fs.Bsize) }))
}

// ofControl shows what the parts know that decide and answer.
func (m gauges) ofControl(c control) {
	m.Sessions(func() map[schemas.State]int { return c.api.Census().States })
	m.Gauge("sessions_archived", "Sessions of the fleet that are in the archive; each is counted by its state as well.", func() float64 { return float64(c.api.Census().Archived) })
	m.Gauge("sessions_breaker_open", "Sessions of the fleet that aren't suspended for idleness because suspends of them failed.", func() float64 { return float64(c.api.Census().Breakers) })
	m.Gauge("sessions_queued", "Sessions with a terminal that were made while no host had room, and wait for one.", func() float64 { return float64(c.api.Queued()) })
	m.Gauge("stored_bytes", "What the snapshots of all sessions take in the store, as the log says.", func() float64 {
		bytes, known := c.usage.Total()
		if !known {
			return math.NaN()
		}
		return float64(bytes)
	})
	m.health.ReadyOn("api", c.api.Ready(), "it is reading the sessions' records")
	m.answers("api", func(context.Context) error {
		c.api.Census()
		return nil
	})
}
