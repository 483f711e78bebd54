package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
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
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/embedded"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/services/triggers"
	"github.com/diapause/diapause/services/usage"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/worker"
)

// hidden runs the parts of the program that are no command of a person: the
// shim that holds a session.
func hidden(args []string) (code int, ok bool) {
	if len(args) > 0 && args[0] == "shim" {
		return shim.Main(args[1:]), true
	}
	return canaryProgram(args)
}

// upFlags are the flags of up.
type upFlags struct {
	listen     string
	nats       string
	identities []string
	recipients []string
	suspender  bool // never opens an image with its own key
	store      string
	moved      bool // the images are in this store now
	capture    string
	retention  string
	budget     string
	dense      bool
	without    []string // hosts that a recovery doesn't wait for
	recover    bool     // make the records again from what this host and the store know
	lease      time.Duration
	slots      int
	alone      bool // the worker alone, beside another up
	metrics    string
	usage      time.Duration // between the events of what sessions used
	docker     string        // the engine's address
	verbose    bool
}

const upHelp = `Run everything in this process, until it is interrupted: NATS with JetStream on
loopback, the scheduler, the worker of this host, a directory of encrypted images,
and the API that the other verbs use. Sessions outlive it: they run on, and the
next "diapause up" of the same --data finds them.

Any program on this machine may publish activity, without credentials:

  nats pub diapause.v1.activity.default.work.input ''

Everything else takes the credentials in the data directory, which only root reads.`

func upCommand(c *client) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use: "up", Short: "Run everything in this process", Long: upHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watched(cmd.Context(), f.metrics, func(ctx context.Context, m gauges) error { return up(ctx, c, f, m) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:4222", "address of the embedded NATS server; port 0 takes a free one")
	fl.StringVar(&f.nats, "nats", "", "use the NATS server at this URL instead, with --creds")
	fl.StringArrayVar(&f.identities, "identity-file", nil, "further age identities that open images")
	fl.StringArrayVar(&f.recipients, "recipient", nil, "further age recipients that new images are encrypted to")
	fl.BoolVar(&f.suspender, "suspend-only", false, "write images for the --recipient alone: this host's own key opens none")
	fl.StringVar(&f.store, "store", os.Getenv("DIAPAUSE_STORE"), storeHelp)
	fl.BoolVar(&f.moved, "store-moved", false, "take another --store than before: its objects were copied there")
	fl.StringVar(&f.capture, "capture", cmp.Or(os.Getenv("DIAPAUSE_CAPTURE"), string(driver.WayAuto)), "how memory goes into an image and back: in memory, buffered, as a stream, or auto: buffered or in memory if there is room")
	fl.StringVar(&f.retention, "retention", os.Getenv("DIAPAUSE_RETENTION"), "what snapshots are kept, if not age=7d,age.desktop=24h,count=10,overall=100,bytes=10G,first=oldest,expire=never (DIAPAUSE_RETENTION)")
	fl.StringVar(&f.budget, "budget", os.Getenv("DIAPAUSE_BUDGET"), "how far images may be scattered over the packs of earlier ones, if not live=40%,packs=256 (DIAPAUSE_BUDGET)")
	fl.BoolVar(&f.dense, "dense", false, "make first images small rather than fast")
	fl.StringArrayVar(&f.without, "recover-without", nil, "a host that is gone for good: a recovery doesn't wait for what it knows")
	fl.BoolVar(&f.recover, "recover", false, "make lost records of sessions again from what this host and the store know, without a sign that some were lost, and from other hosts' images too")
	leaseFlag(cmd, &f)
	slotsFlag(cmd, &f.slots)
	metricsFlag(cmd, &f.metrics)
	usageFlag(cmd, &f.usage)
	dockerFlag(cmd, &f.docker)
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log what is decided, too")
	return cmd
}

// settings are what flags of up say.
type settings struct {
	way    driver.Way
	keep   janitor.Policy
	budget image.Budget
}

// read reads the flags that can be wrong.
func (f upFlags) read() (s settings, err error) {
	if err := cmp.Or(checkLease(f.lease), checkSlots(f.slots)); err != nil {
		return s, err
	}
	if f.usage < 0 {
		return s, usagef("--usage-every %s: want a time above 0, or 0 for never", f.usage)
	}
	if s.way, err = driver.ParseWay(f.capture); err != nil {
		return s, usagef("--capture: %v", err)
	}
	if s.keep, err = janitor.ParsePolicy(f.retention); err != nil {
		return s, usageError{err}
	}
	if s.budget, err = image.ParseBudget(f.budget); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// part says what this is that runs, user as which one of `diapause nats-config`.
func (f upFlags) part() string {
	if f.alone {
		return "a worker"
	}
	return "`diapause up`"
}

func (f upFlags) user(h schemas.HostID) string {
	if f.alone {
		return "worker-" + string(h)
	}
	return "system"
}

func up(ctx context.Context, c *client, f upFlags, m gauges) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("running sessions needs root to freeze, capture and restore processes: run it with sudo")
	}
	set, err := f.read()
	if err != nil {
		return err
	}
	data, err := datadir.Open(c.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	keys, err := data.Keys(f.identities, f.recipients)
	if err != nil {
		return err
	}
	log := newLog(f.verbose)
	images, err := imagesOf(ctx, data, f, log)
	if err != nil {
		return err
	}
	images = m.store(images)
	at, err := reachNATS(ctx, c, f, data, log)
	if err != nil {
		return err
	}
	defer at.stop()
	ctx, g := guarded(ctx, f.part(), f.user(data.Host()), at.system, log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := natsconn.Connect(ctx, at.url, at.system, "diapause up", nats.MaxReconnects(-1), g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	m.nats(nc)
	p, err := assemble(ctx, data, hostKeys{keys, f.recipients, f.suspender}, images, set.way, nc, f.alone, m, log)
	if err != nil {
		return err
	}
	p.janitor.Policy, p.api.Defaults, p.usage.Every = set.keep, defaultsOf(set.keep), f.usage
	if p.adopt, err = withDocker(p.worker, f.docker, data, nc, log); err != nil {
		return err
	}
	if err := regain(ctx, p.worker, f.recover, f.without); err != nil {
		return err
	}
	p.worker.Lease.Term = f.lease
	p.worker.Slots, p.worker.Load = f.slots, worker.MachineLoad
	p.worker.Budget, p.worker.Dense = set.budget, f.dense
	defer func() {
		if err := p.driver.Close(); err != nil {
			log.Info("cgroups are kept: sessions run on", "err", err)
		}
	}()
	return wentBack(p.serve(ctx, at.broken, func() error {
		if err := data.Serving(at.url, at.clients); err != nil {
			return err
		}
		g.through()
		m.started()
		announce(data, keys, at.url)
		return nil
	}))
}

// imagesOf opens the store that was named, if it is the one of before.
func imagesOf(ctx context.Context, data *datadir.Dir, f upFlags, log *slog.Logger) (objectstore.Store, error) {
	at, err := placeOf(f.store, data.Path(), log)
	if err != nil {
		return nil, err
	}
	images, err := openStore(ctx, at)
	if err != nil {
		return nil, err
	}
	return images, data.UseStore(at.name, f.moved)
}

func newLog(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// natsServer is where the parts and their clients find NATS.
type natsServer struct {
	url, system, clients string       // the address, and files of credentials
	broken               <-chan error // nil for a server that isn't ours
	stop                 func()
}

// reachNATS starts the embedded server, or takes the one that was named.
func reachNATS(ctx context.Context, c *client, f upFlags, data *datadir.Dir, log *slog.Logger) (natsServer, error) {
	if f.nats != "" {
		return natsServer{url: f.nats, system: c.creds, clients: c.creds, stop: func() {}}, nil
	}
	host, port, err := net.SplitHostPort(f.listen)
	if err != nil {
		return natsServer{}, usagef("--listen %q: want host:port", f.listen)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 0 || number > 65535 {
		return natsServer{}, usagef("--listen %q: want a port from 0 to 65535", f.listen)
	}
	creds := data.Join("creds")
	srv, err := embedded.Start(ctx, embedded.Options{StoreDir: data.Join("nats"), CredsDir: creds, Host: host, Port: number, Log: log})
	if err != nil {
		return natsServer{}, err
	}
	return natsServer{
		url: srv.URL(), system: embedded.CredsFile(creds, embedded.UserSystem), clients: embedded.CredsFile(creds, embedded.UserClient),
		broken: srv.Broken(), stop: srv.Shutdown,
	}, nil
}

// parts are what runs in one process.
type parts struct {
	driver    *criu.Driver
	worker    *worker.Worker
	scheduler *scheduler.Scheduler
	api       *api.Server
	keeper    *keyring.Keeper
	janitor   *janitor.Janitor
	policies  *policykv.Cache
	fleet     *fleet.Fleet
	agents    *triggers.Taker
	usage     *usage.Publisher
	alone     bool // the worker is all that runs, with what it needs

	adopt func(context.Context) error // makes sessions of containers that ask for it
}

func assemble(ctx context.Context, data *datadir.Dir, keys hostKeys, images objectstore.Store, way driver.Way, nc *nats.Conn, alone bool, m gauges, log *slog.Logger) (parts, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return parts{}, fmt.Errorf("use JetStream: %w", err)
	}
	names := stream.NamesWith("")
	leases, err := prepare(ctx, js, names, alone)
	if err != nil {
		return parts{}, err
	}
	records, err := statekv.Open(ctx, js, names)
	if err != nil {
		return parts{}, err
	}
	records.Swapped = m.Swapped
	points, err := failpoints(log)
	if err != nil {
		return parts{}, err
	}
	drv, err := criu.New(criu.Options{Data: data.Path(), Instance: string(data.Host()), Way: way, Failpoints: points, URL: inside(nc)})
	if err != nil {
		return parts{}, err
	}
	ledger, err := ledgerOf(data, log)
	if err != nil {
		return parts{}, err
	}
	keeper, err := keeperOf(ctx, js, names, data, keys, records, images, log)
	if err != nil {
		return parts{}, err
	}
	policies, err := policiesOf(ctx, js, names, log)
	if err != nil {
		return parts{}, err
	}
	p := parts{driver: drv, keeper: keeper, policies: policies, alone: alone}
	p.worker = worker.New(worker.Options{
		Host: data.Host(), NC: nc, JS: js, Names: names, Records: records, Images: images,
		Drivers: map[string]driver.Driver{"criu": drv}, Identities: keys.reading(), Own: []age.Identity{keys.Own},
		Signer: keys.Signer, Trusted: keeper.Trusted, Keyring: keeper, Log: log,
		Pages: data.Join("pages"), Ledger: ledger, Failpoints: points, Policy: policies.For,
		Lease: &lease.Holder{Store: leases, Host: data.Host(), Log: log},
	})
	p.fleet = fleet.New(fleet.Options{
		JS: js, Names: names, Records: records, Leases: leases, Images: images, Trusted: keeper.Trusted,
		Identities: keys.reading(), Actor: "fleet@" + string(data.Host()), Log: log,
	})
	if p.scheduler, err = schedulerOf(ctx, js, names, records, policies, data.Host(), points, m, log); err != nil {
		return parts{}, err
	}
	p.scheduler.Lead = &saying{Lead: p.scheduler.Lead, who: string(data.Host())}
	p.janitor = janitor.New(janitor.Options{
		Records: records, Images: images, Publish: stream.Publisher{JS: js}, Known: keeper.Known, Log: log, Actor: "janitor@" + string(data.Host()),
		Done: m.Pruned, Keep: func(r schemas.SessionRecord) schemas.Keep { return policies.For(r).Keep },
		Expire: func(ctx context.Context, v statekv.Versioned, reason string) error {
			return p.api.Expire(ctx, v, reason)
		},
	})
	p.api = api.New(api.Options{
		Janitor: p.janitor, Reader: p.worker, Fleet: p.fleet, Policies: policies,
		NC: nc, JS: js, Names: names, Records: records, Images: images, Scheduler: p.scheduler, Keys: keeper,
		Trusted: keeper.Trusted, Host: data.Host(), Version: version, Log: log, Failpoints: points,
	})
	p.meter(js, names, records, data.Host(), m, log)
	m.of(p)
	return p, nil
}

// inside is where programs in sessions find NATS: with no secret in it.
func inside(nc *nats.Conn) string {
	var out []string
	for _, server := range nc.Opts.Servers {
		if u, err := url.Parse(server); err == nil && u.Host != "" {
			out = append(out, u.Scheme+"://"+u.Host)
		}
	}
	return strings.Join(out, ",")
}

// failpoints reads what is to go wrong, in a test of the whole, and says so.
func failpoints(log *slog.Logger) (*failpoint.Set, error) {
	text := os.Getenv(failpoint.Variable)
	points, err := failpoint.Parse(text)
	if err != nil {
		return nil, usagef("%s: %v", failpoint.Variable, err)
	}
	if points != nil {
		log.Warn("FAILPOINTS ARE ON: this process fails on purpose; unset "+failpoint.Variable+" unless it is a test", "failpoints", text)
	}
	return points, nil
}

// parts lists what is to run, and what tells when it does.
func (p parts) parts() (serve []func(context.Context) error, begun []<-chan struct{}) {
	serve = []func(context.Context) error{p.worker.Serve, p.keeper.Ring.Serve, p.keeper.Serve, p.policies.Serve}
	begun = []<-chan struct{}{p.worker.Ready()}
	if p.adopt != nil {
		serve = append(serve, p.adopt)
	}
	if p.alone {
		return serve, begun
	}
	return append(serve, p.scheduler.Serve, p.api.Serve, p.janitor.Serve, p.fleet.Serve, once(p.api.Ready(), p.agents.Serve), once(p.api.Ready(), p.usage.Serve)),
		append(begun, p.scheduler.Ready(), p.api.Ready())
}

// serve runs the parts until ctx ends; ready is called when all of them are.
func (p parts) serve(ctx context.Context, broken <-chan error, ready func() error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-broken:
			return fmt.Errorf("stopped, sessions run on: make room and start `diapause up` again: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	serve, begun := p.parts()
	for _, part := range serve {
		g.Go(func() error { return part(ctx) })
	}
	g.Go(func() error {
		for _, part := range begun {
			select {
			case <-part:
			case <-ctx.Done():
				return nil
			}
		}
		return ready()
	})
	return g.Wait()
}

func announce(data *datadir.Dir, keys *datadir.Keys, url string) {
	if data.Made() {
		fmt.Printf("made the keys of this data directory: %s and %s\nback them up: without them no image in it can be read again\n", keys.IdentityFile, keys.SigningFile)
	}
	fmt.Printf("ready: host %s, %s, data in %s (%s)\n", data.Host(), url, data.Path(), time.Now().Format(time.RFC3339))
}
