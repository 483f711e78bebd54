package run

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
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
}

// control makes them. reader reads the images of suspended sessions for the API.
func (h hostProcess) control(ctx context.Context, m machine, reader api.Reader) (c control, err error) {
	host := string(m.data.Host())
	c.fleet = fleet.New(fleet.Options{
		JS: m.js, Names: m.names, Records: m.records, Leases: m.leases, Images: m.images, Trusted: m.keeper.Trusted,
		Identities: m.keys.reading(), Actor: "fleet@" + host, Log: h.Log,
	})
	term := lease.OfficeTerm
	if h.NATS.URL == "" {
		term = lease.OfficeTermAlone
	}
	if c.scheduler, err = newScheduler(ctx, h.Process, h.gauges, m.link, host, term); err != nil {
		return c, err
	}
	var expire func(ctx context.Context, v statekv.Versioned, reason string) error // of the API, which asks the janitor
	c.usage = &usage.Publisher{Every: h.Control.Usage, Actor: "usage@" + host, Notes: h.Log}
	moves, past, err := h.archive(ctx, m, c.fleet, c.usage.Stored)
	if err != nil {
		return c, err
	}
	c.usage.Log = usage.Log{JS: m.js, Names: m.names, Records: m.records, Past: past}
	c.janitor = janitor.New(janitor.Options{
		Archive: moves, Past: past,
		Records: m.records, Images: m.images, Publish: stream.Publisher{JS: m.js}, Known: m.keeper.Known, Log: h.Log, Actor: "janitor@" + host,
		Policy: h.Control.Retention, Done: h.Pruned,
		Keep:   func(r schemas.SessionRecord) schemas.Keep { return m.policies.For(r).Keep },
		Expire: func(ctx context.Context, v statekv.Versioned, reason string) error { return expire(ctx, v, reason) },
	})
	c.api = api.New(api.Options{
		Janitor: c.janitor, Past: past, Reader: reader, Fleet: c.fleet, Policies: m.policies, Defaults: h.Control.defaults(),
		NC: m.nc, JS: m.js, Names: m.names, Records: m.records, Images: m.images, Scheduler: c.scheduler, Keys: m.keeper,
		Trusted: m.keeper.Trusted, Host: m.data.Host(), Version: h.Version, Log: h.Log, Failpoints: m.points,
		Stored: c.usage.Stored, Network: h.Control.Network,
	})
	expire = c.api.Expire
	c.agents = triggers.New(triggers.Options{
		JS: m.js, Names: m.names, To: c.api, Count: h.Triggered, Log: h.Log,
		Wanted: func(r schemas.SessionRecord) schemas.Triggers { return m.policies.For(r).Checkpoints },
	})
	return c, nil
}

// serving lists what is to run.
func (c control) serving() []func(context.Context) error {
	return []func(context.Context) error{
		c.scheduler.Serve, c.api.Serve, c.janitor.Serve, c.fleet.Serve,
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
