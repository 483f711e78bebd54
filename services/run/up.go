package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/workers/activitydoor"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/drivers"
	"github.com/diapause/diapause/workers/rebuild"
	"github.com/diapause/diapause/workers/worker"
)

// Up runs everything in this process until ctx ends. Sessions outlive it.
func Up(ctx context.Context, c UpConfig) error {
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error {
		return hostProcess{UpConfig: c, gauges: m}.serve(ctx)
	})
}

// Worker runs the sessions of this host until ctx ends. They outlive it.
func Worker(ctx context.Context, c WorkerConfig) error {
	all := UpConfig{Process: c.Process, Data: c.Data, NATS: c.NATS, Keys: c.Keys, Images: c.Images, Host: c.Host}
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error {
		return hostProcess{UpConfig: all, gauges: m, alone: true, id: c.ID}.serve(ctx)
	})
}

// hostProcess is a process that runs sessions.
type hostProcess struct {
	UpConfig
	gauges
	alone bool           // without what decides about sessions and answers clients
	id    schemas.HostID // that a new data directory gets, and another has to have; any if empty
}

// part says what this is, and user as which one of `diapause nats-config` it may run.
func (h hostProcess) part(data *datadir.Dir) (part, user string) {
	if h.alone {
		return "a worker", "worker-" + string(data.Host())
	}
	return "`diapause up`", "system"
}

func (h hostProcess) serve(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return schemas.WithHint(errors.New("running sessions needs root to freeze, capture and restore processes"), "run it with sudo")
	}
	ctx, leaving, end := h.outlive(ctx)
	defer end()
	data, err := datadir.Open(h.Data, h.id)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, data.Discard())
			return
		}
		err = data.Close()
	}()
	keys, err := data.Keys(h.Keys.IdentityFiles, h.Keys.Recipients)
	if err != nil {
		return err
	}
	images, err := h.Images.open(ctx, data, h.Log)
	if err != nil {
		return err
	}
	at, err := h.NATS.reach(ctx, data, h.Log)
	if err != nil {
		return err
	}
	defer at.stop()
	part, user := h.part(data)
	ctx, g := guarded(ctx, part, user, at.system, h.Log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := at.connect(ctx, "diapause up", h.Log, g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	h.nats(nc)
	m := machine{data: data, creds: at.system, keys: hostKeys{keys, h.Keys}, images: h.store(images)}
	if m.link, err = h.link(ctx, nc); err != nil {
		return err
	}
	m.intake, m.know = at.intake, at.know
	p, err := h.parts(ctx, m)
	defer p.close(h.Log)
	if err != nil {
		return err
	}
	door, err := h.door(ctx, m, at, g.option(), &p)
	if err != nil {
		return err
	}
	defer door.close()
	return wentBack(p.serve(ctx, at.broken, func() error {
		data.Web(door.where())
		if err := data.Serving(at.secure, at.url, at.clients); err != nil {
			return err
		}
		g.through()
		leaving <- p.worker
		h.started()
		if err := h.announce(data, keys, at); err != nil {
			return err
		}
		door.greet(ctx)
		return nil
	}))
}

func (h hostProcess) announce(data *datadir.Dir, keys *datadir.Keys, at server) error {
	if data.NewKeys() {
		fmt.Fprintf(h.Out, "made the keys of this data directory: %s and %s\nback them up: without them no image in it can be read again\n", keys.IdentityFile, keys.SigningFile)
	}
	if at.secure != at.url {
		fmt.Fprintf(h.Out, "clients with credentials connect to %s, by TLS\n", at.secure)
	}
	fmt.Fprintf(h.Out, "ready: host %s, %s, data in %s (%s)\n", data.Host(), at.url, data.Path(), time.Now().Format(time.RFC3339))
	return data.KeysShown()
}

// parts are what runs in a process that runs sessions.
type parts struct {
	drivers *drivers.Set
	worker  *worker.Worker
	serving []func(context.Context) error
	ready   []<-chan struct{} // closed when a part can work
}

// close closes what was opened for the parts. Sessions run on.
func (p parts) close(log *slog.Logger) {
	if p.drivers == nil {
		return
	}
	if err := p.drivers.Close(); err != nil {
		log.Info("cgroups are kept: sessions run on", "err", err)
	}
}

// parts makes all of them, and makes lost records again.
func (h hostProcess) parts(ctx context.Context, m machine) (p parts, err error) {
	held := m.holder(h)
	if err := held.Await(ctx); err != nil { // drivers would take sessions of the other place for what is left of lost ones
		return p, err
	}
	if m.know == nil { // a server that wants credentials
		if m.door, err = activitydoor.Open(m.data.Path(), m.nc); err != nil {
			return p, err
		}
		p.serving = append(p.serving, m.door.Serve)
	}
	if p.drivers, err = h.Host.drivers(m, h.hidden(), h.Log); err != nil {
		return p, err
	}
	m.data.Keep()
	if m.keeper, err = m.register(ctx, h.Log); err != nil {
		return p, err
	}
	w, err := h.worker(m, p.drivers, held)
	if err != nil {
		return p, err
	}
	p.worker = w
	h.ofWorker(w)
	h.disks(m.data.Path(), h.Images.Store)
	p.serving = append(p.serving, w.Serve, m.keeper.Ring.Serve, m.keeper.Serve, m.policies.Serve)
	p.ready = []<-chan struct{}{w.Ready()}
	for name, d := range p.drivers.ByName {
		if o, ok := d.(driver.Offerer); ok {
			p.serving = append(p.serving, func(ctx context.Context) error { return adoptOffered(ctx, w, name, o, m.api(name, w.Host), h.Log) })
		}
	}
	if !h.alone {
		c, err := h.control(ctx, m, w)
		if err != nil {
			return p, err
		}
		h.ofControl(c)
		if m.know != nil {
			m.know(newDoor(c.scheduler.Known, m.records.Get, c.scheduler.Unheard).admits, c.scheduler.Missed)
		}
		p.serving, p.ready = append(p.serving, c.serving()...), append(p.ready, c.scheduler.Ready(), c.api.Ready())
	}
	return p, h.Recovery.regain(ctx, w, h.Out)
}

// serve runs the parts until ctx ends; ready is called when all of them can work.
func (p parts) serve(ctx context.Context, broken <-chan error, ready func() error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-broken:
			return schemas.WithHint(fmt.Errorf("stopped, sessions run on: %w", err), "make room and start `diapause up` again")
		case <-ctx.Done():
			return nil
		}
	})
	for _, part := range p.serving {
		g.Go(func() error { return part(ctx) })
	}
	g.Go(func() error {
		for _, part := range p.ready {
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

// wentBack says what to do when the records went back while they were served.
func wentBack(err error) error {
	if errors.Is(err, rebuild.ErrWentBack) {
		return schemas.WithHint(fmt.Errorf("stopped, sessions run on: %w", err), "start `diapause up` again, it recovers their records")
	}
	return err
}
