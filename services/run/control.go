package run

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/drain"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/services/traces"
	"github.com/diapause/diapause/services/triggers"
	"github.com/diapause/diapause/services/usage"
)

// control is what decides about sessions and answers clients.
type control struct {
	scheduler *scheduler.Scheduler
	api       *api.Server
	janitor   *janitor.Janitor
	fleet     *fleet.Fleet
	agents    *triggers.Taker
	timed     *triggers.Timed
	usage     *usage.Publisher
	traces    *traces.Exporter
	orders    *hostkv.Cache
	drainer   *drain.Drainer
}

// ruling is what they are made of.
type ruling struct {
	link
	gauges
	log        *slog.Logger
	version    string
	of         Control
	name       string         // of the process, in what it writes
	host       schemas.HostID // which new sessions prefer; none if empty
	images     objectstore.Store
	keeper     *keyring.Keeper
	identities []age.Identity // open images, to look at one before it is adopted; may be none
	reader     api.Reader     // reads the images of suspended sessions for the API
	scheduler  *scheduler.Scheduler
	term       time.Duration   // of the offices that it holds; lease.OfficeTerm if zero
	logKeys    datadir.LogKeys // for old revisions of the log; without a signer none are moved
	signs      schemas.HostID  // whose key signs these
}

// control makes the parts of a process that runs sessions, too.
func (h hostProcess) control(ctx context.Context, m machine, reader api.Reader) (control, error) {
	host := m.data.Host()
	m.orders.Load(ctx)
	if err := h.setDefaults(ctx, m.link, host); err != nil {
		return control{}, err
	}
	term := lease.OfficeTerm
	if h.NATS.URL == "" {
		term = lease.OfficeTermAlone
	}
	s, err := newScheduler(ctx, h.Process, h.gauges, m.link, string(host), term)
	if err != nil {
		return control{}, err
	}
	key, err := m.data.LogKey(h.NATS.Creds)
	if err != nil {
		return control{}, err
	}
	return ruling{
		link: m.link, gauges: h.gauges, log: h.Log, version: h.Version, of: h.Control, name: string(host), host: host,
		images: m.images, keeper: m.keeper, identities: m.keys.reading(), reader: reader, scheduler: s, term: term,
		logKeys: datadir.LogKeys{Key: key, Signer: m.keys.Signer}, signs: host,
	}.control(ctx)
}

// control makes the parts.
func (r ruling) control(ctx context.Context) (c control, err error) {
	c.scheduler, c.orders = r.scheduler, r.orders
	queues, err := lease.OpenOffice(ctx, r.js, r.names, "queue")
	if err != nil {
		return c, err
	}
	c.fleet = fleet.New(fleet.Options{
		JS: r.js, Names: r.names, Records: r.records, Leases: r.leases, Images: r.images, Trusted: r.keeper.Trusted,
		Identities: r.identities, Actor: "fleet@" + r.name, Log: r.log, Orders: r.orders, Slots: r.policies.Slots,
	})
	c.drainer = drain.New(drain.Options{
		JS: r.js, Names: r.names, Records: r.records, Orders: r.orders, Fleet: c.fleet, Scheduler: c.scheduler, Actor: "drain@" + r.name, Log: r.log,
	})
	var expire func(ctx context.Context, v statekv.Versioned, reason string) error // of the API, which asks the janitor
	var toArchive func(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error
	c.usage = &usage.Publisher{Every: r.of.Usage, Actor: "usage@" + r.name, Notes: r.log}
	moves, past, err := r.archive(ctx, c.fleet, c.usage.Stored)
	if err != nil {
		return c, err
	}
	c.usage.Log = usage.Log{JS: r.js, Names: r.names, Records: r.records, Past: past}
	c.janitor = janitor.New(janitor.Options{
		Archive: moves, Past: past,
		Records: r.records, Images: r.images, Publish: stream.Publisher{JS: r.js}, Known: r.keeper.Known, Log: r.log, Actor: "janitor@" + r.name,
		Policy: r.of.Retention, Done: r.Pruned,
		Keep:   func(s schemas.SessionRecord) schemas.Keep { return r.policies.For(s).Keep },
		Expire: func(ctx context.Context, v statekv.Versioned, reason string) error { return expire(ctx, v, reason) },
		Quota:  r.policies.Quota,
		Held:   r.scheduler.Held,
		ToArchive: func(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error {
			return toArchive(ctx, v, why, reason)
		},
	})
	c.api = api.New(api.Options{
		Janitor: c.janitor, Past: past, Reader: r.reader, Fleet: c.fleet, Policies: r.policies, Defaults: r.of.defaults(),
		NC: r.nc, JS: r.js, Names: r.names, Records: r.records, Images: r.images, Scheduler: c.scheduler, Keys: r.keeper,
		Trusted: r.keeper.Trusted, Host: r.host, Version: r.version, Log: r.log, Failpoints: r.points,
		Stored: c.usage.Stored, Network: r.of.Network, Orders: r.orders, Drainer: c.drainer,
		Name: r.name, QueueLead: &lease.Office{Store: queues, Holder: schemas.HostID(r.name), Term: r.term, Log: r.log},
	})
	expire, toArchive, c.janitor.DropMemory = c.api.Expire, c.api.Archive, c.api.DropMemory
	c.traces = &traces.Exporter{Log: r.records, TraceOf: func(ctx context.Context, seq uint64) (string, error) { return stream.Trace(ctx, r.js, r.names, seq) }, Version: r.version, Notes: r.log}
	c.agents = triggers.New(triggers.Options{
		JS: r.js, Names: r.names, To: c.api, Count: r.Triggered, Log: r.log,
		Wanted: func(s schemas.SessionRecord) schemas.Triggers { return r.policies.For(s).Checkpoints },
	})
	c.timed = &triggers.Timed{
		Running: c.api.Running, Changed: c.api.Changed, Renew: c.api.Renew, Count: r.Triggered, Log: r.log,
		Every: func(s schemas.SessionRecord) time.Duration { return r.policies.For(s).Checkpoints.Every() },
		Wanted: func() bool {
			return slices.ContainsFunc(r.policies.Documents(true), func(v policykv.Versioned) bool { return v.Policy.Checkpoints.Every() > 0 })
		},
	}
	return c, nil
}

// setDefaults has this process's defaults be those that all parts read, before anything is decided.
func (h hostProcess) setDefaults(ctx context.Context, l link, host schemas.HostID) error {
	set, err := l.policies.SetDefaults(ctx, "up@"+string(host), h.Control.Defaults)
	if err != nil {
		return err
	}
	for _, d := range set.Defaults {
		for _, line := range d.Policy.Lines() {
			fmt.Fprintf(h.Out, "default of %s: %s (%s of %s)\n", d.Scope, line, d.From, set.Change.By)
		}
	}
	return l.policies.Load(ctx)
}

// serving lists what is to run.
func (c control) serving() []func(context.Context) error {
	return []func(context.Context) error{
		c.scheduler.Serve, c.api.Serve, c.janitor.Serve, c.fleet.Serve, c.orders.Serve, c.drainer.Serve,
		after(c.api.Ready(), c.agents.Serve), after(c.api.Ready(), c.timed.Serve), after(c.api.Ready(), c.usage.Serve), c.traces.Serve,
	}
}

// after gives a part that begins when another is ready.
func after(ready <-chan struct{}, serve func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ready:
			return serve(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// defaults are what the scheduler and the janitor go by where no policy says otherwise.
func (c Control) defaults() func(class string) schemas.Policy {
	keep := c.Retention
	return func(class string) schemas.Policy {
		w := scheduler.DefaultWatermarks()
		age, ok := keep.ClassAge[class]
		if !ok {
			age = keep.Age
		}
		of := func(d time.Duration) *schemas.Duration { return new(schemas.Duration(d)) }
		return schemas.Policy{
			Keep:       &schemas.Keep{Age: of(age), Count: &keep.Count, Expire: of(keep.Expire)},
			Watermarks: &schemas.Watermarks{Sessions: &w.Sessions, Memory: &w.Memory, Pressure: &w.Pressure},
		}
	}
}
