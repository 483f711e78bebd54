package worker

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recovery"
)

// Options is what a worker is made of. All fields are needed but those that say
// otherwise, Log and the durations; without NC nobody is connected to a session.
type Options struct {
	Host    schemas.HostID
	NC      *nats.Conn
	JS      jetstream.JetStream
	Names   stream.Names
	Records Records
	Bus     Bus // that of JS, NC and Names if nil
	Images  objectstore.Store
	Drivers map[schemas.DriverName]driver.Driver

	Identities []age.Identity     // open the sealed spec of sessions and their images
	Recipients []age.Recipient    // whom new lineage keys are wrapped to
	Signer     ed25519.PrivateKey // signs images
	// Trusted gives the keys that images of a tenant may be signed with.
	Trusted func(tenant, signer string) []ed25519.PublicKey
	// Keyring, if given, says in the place of Recipients and Trusted who reads and
	// writes images.
	Keyring Keyring
	// Own are identities that open what is sealed to this host besides, and no
	// image: a host that only suspends has these alone.
	Own []age.Identity

	// Pages, if given, is a directory of this host's own, where it keeps, encrypted, what
	// the next capture of each session is matched against. Without it that is in
	// memory alone: after a restart it is read from the store, if Identities can, or
	// the next image is a full one.
	Pages string
	// Ledger, if given, is this host's own memory of its sessions' records: see Regain.
	Ledger *recovery.Ledger
	// Budget bounds how far images are scattered over the packs of earlier ones, and
	// Dense has first images made small rather than fast: see image.WriteOptions.
	Budget image.Budget
	Dense  bool

	// Lease, if given, is this host's: it is taken before anything else is done, and held.
	// Without it the host counts as there for ever, and no other takes over from it.
	Lease *lease.Holder

	// Policy says what a session is held to; what is built in if nil.
	Policy func(schemas.SessionRecord) session.Policy

	// Lacks says of drivers that this host could have why it hasn't, by name.
	Lacks map[schemas.DriverName]string

	// Slots is how many sessions this host has room for; no limit if 0. Load, if given,
	// says how full it is: MachineLoad.
	Slots int
	Load  func() (schemas.HostLoad, error)

	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set

	Log     *slog.Logger
	Observe time.Duration // between two looks at each session; 1 s if zero
	Sweep   time.Duration // between two sweeps; 30 s if zero
}

// Worker is the worker of one host.
type Worker struct {
	Options
	claim   string // of this process
	started time.Time
	actors  *actors
	shelf   *pageShelf // nil without Pages

	found    []found // when the worker began
	searched bool    // found is complete

	witnesses  witnesses
	generation string // the last recovery of the fleet that this host had a part in

	mu       sync.Mutex
	bases    map[schemas.UID]*base                    // by session: page ids of its last image, if they aren't on the shelf
	observed map[schemas.UID]sighting                 // what the last look saw
	held     map[string][]schemas.Name                // by session: deleted ones whose images it still needs
	undoing  map[schemas.Name]func(notified)          // suspends under way that want to hear of new revisions
	notBorn  map[schemas.UID]birth                    // by session: the last op that recorded it to run, or may have, and let it execute nothing
	hosted   map[schemas.Name]schemas.SessionRecord   // what may have processes here
	former   map[schemas.Name][]schemas.SessionRecord // what may have left processes here that the name's record says nothing of any more
	keptOf   map[schemas.Name][]schemas.UID           // what drivers may keep something of
	telling  map[schemas.UID]bool                     // of a renewal of the lease, just now
	tellers  sync.WaitGroup
	ready    chan struct{} // closed when recovery is done
}

// New makes a worker; Serve runs it.
func New(o Options) *Worker {
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
	w := &Worker{
		Options: o, claim: string(o.Host) + "." + nuid.Next(), started: time.Now(),
		bases: map[schemas.UID]*base{}, observed: map[schemas.UID]sighting{}, held: map[string][]schemas.Name{}, undoing: map[schemas.Name]func(notified){},
		notBorn: map[schemas.UID]birth{}, hosted: map[schemas.Name]schemas.SessionRecord{}, telling: map[schemas.UID]bool{}, former: map[schemas.Name][]schemas.SessionRecord{}, keptOf: map[schemas.Name][]schemas.UID{}, ready: make(chan struct{}),
	}
	w.shelf = w.openShelf()
	w.actors = newActors(w.drive, w.Log)
	return w
}

// Ready is closed when the worker has found again what was on its host and
// takes work.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Serve runs the worker until ctx ends, and returns when all that it started
// has stopped. Sessions go on.
func (w *Worker) Serve(ctx context.Context) error {
	if w.Lease == nil {
		return w.serve(ctx)
	}
	if err := w.Lease.Take(ctx); err != nil {
		return nil // only ctx ends that
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.holdLease(ctx) })
	g.Go(func() error { return w.serve(ctx) })
	err := g.Wait()
	w.tellers.Wait()
	return err
}

func (w *Worker) serve(ctx context.Context) error {
	if err := w.recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("recover the sessions of host %s: %w", w.Host, err)
	}
	// Whoever sees it ready may ask for a session to be placed on it.
	if err := w.announce(ctx, 0); err != nil && ctx.Err() == nil {
		w.Log.Warn("host not announced", "err", err)
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
	g.Go(func() error { return w.observeAll(ctx) })
	g.Go(func() error { return w.sweep(ctx) })
	if w.Load != nil {
		g.Go(func() error { return w.watchLoad(ctx) })
	}
	if w.Ledger != nil {
		g.Go(func() error { return w.remember(ctx) })
		g.Go(func() error { return w.followLog(ctx) })
	}
	g.Go(func() error { return w.serveHost(ctx, func() { close(w.ready) }) })
	return g.Wait()
}

// announce tells the fleet about this host.
func (w *Worker) announce(ctx context.Context, sessions int) error {
	h := schemas.Host{Host: w.Host, PID: os.Getpid(), Started: w.started, Seen: time.Now().UTC(), Sessions: sessions, Slots: w.Slots, Lacks: map[schemas.DriverName]string{}}
	maps.Copy(h.Lacks, w.Lacks)
	if w.Load != nil {
		if load, err := w.Load(); err == nil {
			h.Load = &load
		}
	}
	if w.Signer != nil {
		h.SigningKey = encodeKey(w.Signer.Public().(ed25519.PublicKey))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Drivers)) { // the first that can is taken where none is asked for
		d := w.Drivers[name]
		fp, err := d.Fingerprint(ctx)
		if err != nil && ctx.Err() != nil {
			return err // it was cut short: that says nothing of the driver
		}
		if err != nil {
			w.Log.Warn("driver can't work here", "driver", name, "err", err)
			h.Lacks[name] = lackOf(err)
			continue
		}
		h.Fingerprints = append(h.Fingerprints, fp)
	}
	return w.Bus.Announce(ctx, h)
}

// driverFor gives the driver of a session.
func (w *Worker) driverFor(r schemas.SessionRecord) (driver.Driver, error) {
	d, ok := w.Drivers[r.Driver]
	if !ok {
		text := fmt.Sprintf("host %s has no driver %q", w.Host, r.Driver)
		if why := w.Lacks[r.Driver]; why != "" {
			text += ": " + why
		}
		return nil, &driver.Error{Kind: driver.Refused, Text: text}
	}
	return d, nil
}

// lackOf gives a driver's own words of an error, without what they are of.
func lackOf(err error) string {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Text
	}
	return err.Error()
}

func fenceOf(r schemas.SessionRecord) driver.Fence {
	return driver.Fence{UID: r.UID, Name: r.Name(), Epoch: r.Epoch}
}
