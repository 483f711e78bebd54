package worker

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/connect"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/rebuild"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/recovery"
	"github.com/diapause/diapause/workers/search"
	"github.com/diapause/diapause/workers/sense"
	"github.com/diapause/diapause/workers/snapshots"
	"github.com/diapause/diapause/workers/turns"
)

// Options is what a worker is made of. All fields are needed except those that say otherwise,
// Log and the durations; without NC no client can connect to a session.
type Options struct {
	Host    schemas.HostID
	NC      *nats.Conn
	JS      jetstream.JetStream
	Names   stream.Names
	Records Records
	Bus     Bus // made of JS, NC and Names if nil
	Images  objectstore.Store
	Drivers map[schemas.DriverName]driver.Driver

	Identities []age.Identity     // open the sealed spec of sessions and their images
	Recipients []age.Recipient    // of new lineage keys
	Signer     ed25519.PrivateKey // signs images
	// Trusted gives the keys that images of a tenant may be signed with.
	Trusted func(tenant, signer string) []ed25519.PublicKey
	// Keyring, if given, replaces Recipients and Trusted.
	Keyring snapshots.Keyring
	// Own are identities that open what is sealed to this host, and no image: a host that
	// only suspends has these alone.
	Own []age.Identity

	// Pages, if given, is a directory of this host, where it keeps, encrypted, what the next
	// capture of each session is matched against. Without it that is in memory alone: after
	// a restart it is read from the store, if Identities open the image, or else the next
	// image is a full one.
	Pages string
	// Recordings, if given, is a directory of this host, in which what terminals show waits, encrypted, for the store.
	// Without it nothing is recorded.
	Recordings string
	// SearchMemory is what indexes of recordings may take in memory, in bytes; search.Usual if 0.
	SearchMemory int64
	// Ledger, if given, is what this host remembers of its sessions' records: see Regain.
	Ledger *recovery.Ledger
	// Budget bounds how far images are scattered over the packs of earlier ones, and
	// Dense has first images made small rather than fast: see image.WriteOptions.
	Budget image.Budget
	Dense  bool

	// Lease, if given, is this host's: Serve takes it before anything else, and holds it.
	// Without it the host never counts as lost, and no other takes over from it.
	Lease *lease.Holder

	// Policy gives the policy of a session; the one of its class if nil.
	Policy func(schemas.SessionRecord) session.Policy

	// Lacks says why this host hasn't got a driver that it could have, by name.
	Lacks map[schemas.DriverName]string

	// Slots is how many sessions this host has room for; no limit if 0. Load, if given,
	// says how full it is: MachineLoad.
	Slots int
	Load  func() (schemas.HostLoad, error)

	// Labels are what the operator calls this host by, Version is that of Diapause: both are announced.
	Labels  map[string]string
	Version string

	// Direct takes clients that don't come through NATS; nil if there is none.
	Direct *direct.Server

	// Operations bounds the captures and restores that go on at a time.
	Operations turns.Limits

	// Failpoints fails or stops between two steps, in tests; may be nil.
	Failpoints *failpoint.Set

	Log     *slog.Logger
	Observe time.Duration // between two looks at each session; 1 s if zero
	Sweep   time.Duration // between two sweeps; 30 s if zero
}

// Worker is the worker of one host. It wires the parts together and runs them.
type Worker struct {
	Options
	actors      *actors
	inventory   *inventory
	recorder    *recorder
	turns       *turns.Queue
	snapshots   *snapshots.Store
	recordings  *recordings.Spool
	searcher    *search.Searcher
	hosting     *hosting
	retained    *retained
	interrupter *interrupter
	remover     *remover
	leaver      *leaver
	announcer   *announcer
	sensor      *sense.Sensor
	connections *connect.Server
	rebuilder   *rebuild.Rebuilder // nil without a ledger
	ready       chan struct{}      // closed when recovery is done
}

// New makes a worker; Serve runs it.
func New(o Options) *Worker {
	o = o.filled()
	w := &Worker{Options: o, ready: make(chan struct{})}
	have := drivers{host: o.Host, byName: o.Drivers, lacks: o.Lacks}
	w.inventory = &inventory{drivers: have}
	w.turns = turns.NewQueue(o.Operations)
	w.recorder = &recorder{host: o.Host, records: o.Records, bus: o.Bus, ledger: o.Ledger, log: o.Log}
	w.snapshots = snapshots.New(snapshots.Options{
		Host: o.Host, Objects: o.Images, Records: o.Records, Log: o.Log, Signer: o.Signer, Identities: o.Identities, Own: o.Own,
		Recipients: o.Recipients, Trusted: o.Trusted, Keyring: o.Keyring, Pages: o.Pages, Budget: o.Budget, Dense: o.Dense,
	})
	w.recordings = recordings.New(recordings.Options{
		Dir: o.Recordings, Host: o.Host, Objects: o.Images, Signer: o.Signer, Snapshots: w.snapshots, Records: o.Records, Log: o.Log,
		Failpoints: o.Failpoints,
	})
	w.searcher = search.New(search.Options{Recordings: w.recordings, Records: o.Records, Seal: w.sealRecorded, Most: o.SearchMemory, Log: o.Log})
	w.recordings.Stored = w.searcher.Touch
	wake := func(n schemas.Name) { w.actors.wake(n) }
	w.hosting = newHosting(have, o.Lease, w.snapshots, wake, o.Log)
	w.retained = newRetained(have, o.Records, wake, o.Log)
	w.interrupter = newInterrupter(o.Bus, o.Policy)
	w.sensor = sense.New(sense.Options{Host: o.Host, Records: o.Records, Bus: o.Bus, Drivers: o.Drivers, Every: o.Observe, Log: o.Log})
	w.announcer = &announcer{
		drivers: have, bus: o.Bus, signer: o.Signer, started: time.Now(), slots: o.Slots, load: o.Load, sessions: w.sensor.Count, log: o.Log,
		labels: o.Labels, version: o.Version,
	}
	w.connections = &connect.Server{Options: connect.Options{
		Host: o.Host, NC: o.NC, Records: o.Records, Bus: o.Bus, Drivers: o.Drivers, Output: w.snapshots.Output, Recorded: w.recorded, RecordedFrom: w.recordedFrom, Commands: w.typed, Spec: w.snapshots.Spec, Shown: w.recordings.Shown, Picture: func(ctx context.Context, r schemas.SessionRecord) ([]byte, error) {
			return recordings.Picture(ctx, w.snapshots, r)
		}, Import: w.imports(), Searcher: w.searcher,
		Capturing: w.interrupter.underway, Log: o.Log, Answers: w.answers(), Direct: o.Direct,
	}}
	w.remover = &remover{
		host: o.Host, nc: o.NC, js: o.JS, names: o.Names, drivers: have, recorder: w.recorder, snapshots: w.snapshots,
		recordings: w.recordings, searcher: w.searcher, failpoints: o.Failpoints, wake: wake, held: map[string][]schemas.Name{},
	}
	if o.Ledger != nil {
		w.rebuilder = rebuild.New(rebuild.Options{
			Host: o.Host, JS: o.JS, Names: o.Names, Records: o.Records, Ledger: o.Ledger, Lease: o.Lease, Snapshots: w.snapshots,
			Here: w.inventory.here, Rebuilt: w.rebuilt, Log: o.Log,
		})
	}
	w.actors = newActors(w.executor(have).drive, o.Log)
	return w
}

// executor makes what the actors run.
func (w *Worker) executor(have drivers) *executor {
	claim, tries := string(w.Host)+"."+nuid.Next(), newAttempts()
	w.leaver = &leaver{host: w.Host, claim: claim, js: w.JS, names: w.Names, recorder: w.recorder, log: w.Log}
	start := &starter{
		drivers: have, hosting: w.hosting, recorder: w.recorder, snapshots: w.snapshots, recordings: w.recordings, sensor: w.sensor,
		interrupter: w.interrupter, attempts: tries, turns: w.turns, failpoints: w.Failpoints, policy: w.Policy, log: w.Log,
	}
	end := &ending{host: w.Host, recorder: w.recorder, starter: start, snapshots: w.snapshots, recordings: w.recordings, leaver: w.leaver, log: w.Log}
	return &executor{
		host: w.Host, claim: claim, drivers: have, recorder: w.recorder, failpoints: w.Failpoints, log: w.Log,
		hosting: w.hosting, retained: w.retained, starter: start, remover: w.remover, leaver: w.leaver,
		reconciler: &reconciler{claim: claim, drivers: have, hosting: w.hosting, recorder: w.recorder, starter: start, attempts: tries, ending: end},
		capturer: &capturer{
			drivers: have, hosting: w.hosting, bus: w.Bus, recorder: w.recorder, snapshots: w.snapshots, recordings: w.recordings, interrupter: w.interrupter,
			ending: end, policy: w.Policy, turns: w.turns, failpoints: w.Failpoints, log: w.Log,
		},
		rewriter: &rewriter{
			recorder: w.recorder, snapshots: w.snapshots, interrupter: w.interrupter, turns: w.turns, failpoints: w.Failpoints, log: w.Log,
		},
		killer: &killer{
			drivers: have, bus: w.Bus, recorder: w.recorder, snapshots: w.snapshots, recordings: w.recordings, policy: w.Policy, failpoints: w.Failpoints, log: w.Log,
		},
	}
}

// filled gives the options with their defaults.
func (o Options) filled() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == 0 {
		o.Observe = time.Second
	}
	if o.Sweep == 0 {
		o.Sweep = 30 * time.Second
	}
	if o.Bus == nil {
		o.Bus = natsBus{stream.Publisher{JS: o.JS}, o.NC, o.Names}
	}
	if o.Policy == nil {
		o.Policy = func(r schemas.SessionRecord) session.Policy {
			p, _ := session.PolicyFor(r.Class, r.Idle)
			return p
		}
	}
	return o
}

// answers gives what other hosts and the API ask of this host, beside connections.
func (w *Worker) answers() map[string]func(context.Context, []byte) []byte {
	return map[string]func(context.Context, []byte) []byte{
		"observe": func(ctx context.Context, question []byte) []byte {
			var of []schemas.UID // all if there is no question
			if len(question) > 0 && json.Unmarshal(question, &of) != nil {
				return nil
			}
			data, err := json.Marshal(w.observed(ctx, of))
			if err != nil {
				return nil
			}
			return data
		},
		"imported": func(_ context.Context, uid []byte) []byte {
			data, err := json.Marshal(w.recordings.Imports.Asked(schemas.UID(uid)))
			if err != nil {
				return nil
			}
			return data
		},
		"redact": func(ctx context.Context, question []byte) []byte {
			var q schemas.RedactQuestion
			if json.Unmarshal(question, &q) != nil {
				return nil
			}
			data, err := json.Marshal(w.redact(ctx, q))
			if err != nil {
				return nil
			}
			return data
		},
		"forget": func(ctx context.Context, uid []byte) []byte {
			w.snapshots.Forget(schemas.UID(uid))
			w.searcher.Forget(schemas.UID(uid))
			if err := w.recordings.Forget(ctx, schemas.UID(uid)); err != nil {
				w.Log.Warn("could not forget what was recorded", "uid", string(uid), "err", err)
				return nil
			}
			return []byte(w.Host)
		},
	}
}

// observed gives what is seen of the given sessions, or of all if none is given: of those that
// run, and of those with an operation that waits for others.
func (w *Worker) observed(ctx context.Context, of []schemas.UID) map[schemas.UID]schemas.Observed {
	out := w.sensor.Observed(ctx, of...)
	for uid, o := range out {
		if o.Watching = w.connections.Watching(uid); o.Watching != nil {
			out[uid] = o
		}
	}
	for uid, place := range w.turns.Places() {
		if len(of) == 0 || slices.Contains(of, uid) {
			o := out[uid]
			o.Queue = &place
			out[uid] = o
		}
	}
	return out
}

// Regain makes the records of this host's sessions again, if they went back: see rebuild.Run.
// It is called before Serve, of a worker with a Ledger.
func (w *Worker) Regain(ctx context.Context, force bool, without []schemas.HostID, waiting func([]schemas.HostID)) (rebuild.Result, error) {
	return w.rebuilder.Run(ctx, force, without, waiting)
}

// rebuilt notes a record that was made again.
func (w *Worker) rebuilt(ctx context.Context, r schemas.SessionRecord) {
	w.recorder.remember(r)
	w.recorder.event(ctx, r, "recovered", "%s", r.Transition.Reason)
}

// DialPort connects this process to a port of a session that runs here: see connect.Server.
func (w *Worker) DialPort(ctx context.Context, v schemas.View, port uint16) (*attach.PortConn, error) {
	return w.connections.DialPort(ctx, v, port)
}

// Ready is closed when the worker has found what was on its host and takes work.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Serve runs the worker until ctx ends, and returns when all that it started
// has stopped. Sessions go on.
func (w *Worker) Serve(ctx context.Context) error {
	if w.Lease == nil {
		return w.serve(ctx)
	}
	if err := w.Lease.Take(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.hosting.hold(ctx) })
	g.Go(func() error { return w.serve(ctx) })
	err := g.Wait()
	w.hosting.tellers.Wait()
	return err
}

func (w *Worker) serve(ctx context.Context) error {
	if err := w.recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("recover the sessions of host %s: %w", w.Host, err)
	}
	// A client that sees it ready may ask for a session to be placed on it.
	if err := w.announcer.announce(ctx, 0); err != nil && ctx.Err() == nil {
		w.Log.Warn("could not announce the host", "err", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.actors.serve(ctx) })
	g.Go(func() error { return w.consumeCommands(ctx) })
	g.Go(func() error { return w.watchRecords(ctx) })
	for name, d := range w.Drivers {
		if e, ok := d.(driver.Watcher); ok {
			g.Go(func() error { return w.watchExits(ctx, name, e) })
		}
	}
	g.Go(func() error { return w.sensor.Serve(ctx) })
	g.Go(func() error { return w.recordings.Serve(ctx) })
	g.Go(func() error { return w.searcher.Serve(ctx) })
	g.Go(func() error { return w.sweep(ctx) })
	if w.Load != nil {
		g.Go(func() error { return w.announcer.watchLoad(ctx) })
	}
	if w.rebuilder != nil {
		g.Go(func() error { return w.followRecords(ctx) })
		g.Go(func() error { return w.rebuilder.FollowLog(ctx) })
	}
	g.Go(func() error { return w.connections.Serve(ctx, func() { close(w.ready) }) })
	return g.Wait()
}

// Counts is how much a worker has to do.
type Counts struct {
	Working int                   // sessions that something is being done to just now
	Hosted  map[schemas.State]int // sessions of this host by state, except the suspended ones
}

// Counts says how much there is to do now.
func (w *Worker) Counts() Counts {
	c := Counts{Working: w.actors.working(), Hosted: map[schemas.State]int{}}
	w.hosting.count(&c)
	return c
}
