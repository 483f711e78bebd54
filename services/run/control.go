package run

import (
	"context"
	"log/slog"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/drain"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/scheduler"
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
	usage     *usage.Publisher
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
}

// control makes the parts of a process that runs sessions, too.
func (h hostProcess) control(ctx context.Context, m machine, reader api.Reader) (control, error) {
	host := m.data.Host()
	m.orders.Load(ctx)
	term := lease.OfficeTerm
	if h.NATS.URL == "" {
		term = lease.OfficeTermAlone
	}
	s, err := newScheduler(ctx, h.Process, h.gauges, m.link, string(host), term)
	if err != nil {
		return control{}, err
	}
	return ruling{
		link: m.link, gauges: h.gauges, log: h.Log, version: h.Version, of: h.Control, name: string(host), host: host,
		images: m.images, keeper: m.keeper, identities: m.keys.reading(), reader: reader, scheduler: s,
	}.control(), nil
}

// control makes the parts.
func (r ruling) control() (c control) {
	c.scheduler = r.scheduler
	c.fleet = fleet.New(fleet.Options{
		JS: r.js, Names: r.names, Records: r.records, Leases: r.leases, Images: r.images, Trusted: r.keeper.Trusted,
		Identities: r.identities, Actor: "fleet@" + r.name, Log: r.log, Orders: r.orders,
	})
	c.orders = r.orders
	c.drainer = drain.New(drain.Options{
		JS: r.js, Names: r.names, Records: r.records, Orders: r.orders, Fleet: c.fleet, Scheduler: c.scheduler, Actor: "drain@" + r.name, Log: r.log,
	})
	var expire func(ctx context.Context, v statekv.Versioned, reason string) error // of the API, which asks the janitor
	c.janitor = janitor.New(janitor.Options{
		Records: r.records, Images: r.images, Publish: stream.Publisher{JS: r.js}, Known: r.keeper.Known, Log: r.log, Actor: "janitor@" + r.name,
		Policy: r.of.Retention, Done: r.Pruned,
		Keep:   func(s schemas.SessionRecord) schemas.Keep { return r.policies.For(s).Keep },
		Expire: func(ctx context.Context, v statekv.Versioned, reason string) error { return expire(ctx, v, reason) },
	})
	c.usage = &usage.Publisher{
		Log: usage.Log{JS: r.js, Names: r.names, Records: r.records}, Every: r.of.Usage, Actor: "usage@" + r.name, Notes: r.log,
	}
	c.api = api.New(api.Options{
		Janitor: c.janitor, Reader: r.reader, Fleet: c.fleet, Policies: r.policies, Defaults: r.of.defaults(),
		NC: r.nc, JS: r.js, Names: r.names, Records: r.records, Images: r.images, Scheduler: c.scheduler, Keys: r.keeper,
		Trusted: r.keeper.Trusted, Host: r.host, Version: r.version, Log: r.log, Failpoints: r.points,
		Stored: c.usage.Stored, Network: r.of.Network, Orders: r.orders, Drainer: c.drainer,
	})
	expire = c.api.Expire
	c.agents = triggers.New(triggers.Options{
		JS: r.js, Names: r.names, To: c.api, Count: r.Triggered, Log: r.log,
		Wanted: func(s schemas.SessionRecord) schemas.Triggers { return r.policies.For(s).Checkpoints },
	})
	return c
}

// serving lists what is to run.
func (c control) serving() []func(context.Context) error {
	return []func(context.Context) error{
		c.scheduler.Serve, c.api.Serve, c.janitor.Serve, c.fleet.Serve, c.orders.Serve, c.drainer.Serve,
		after(c.api.Ready(), c.agents.Serve), after(c.api.Ready(), c.usage.Serve),
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
