package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// StoresEarly implements driver.Early.
func (d *Driver) StoresEarly() bool { return true }

// Name is what sessions call this driver.
const Name = dockerspec.Driver

// Options configure the driver.
type Options struct {
	// Engine is the socket of the engine, as unix:///var/run/docker.sock.
	Engine string
	// Data is the directory of the driver's notes. It is created with mode 0700.
	Data string
	// Instance is a token that keeps the drivers on one engine apart.
	Instance string
	// Log gets what the driver left alone out of caution. Nil logs nothing.
	Log *slog.Logger
	// Failpoints make steps fail in tests. Nil does nothing.
	Failpoints *failpoint.Set
}

// Driver is the docker driver. It is safe for concurrent use. Its methods hand the calls of
// the port on to its parts.
type Driver struct {
	engine   *engine
	notes    *notes
	storage  *storage
	claims   *claims
	adoption *adoption
	states   *states
	watcher  *watcher
	observer *observer
	pauser   *pauser
	capturer *capturer
	remover  *remover
	starter  *starter
	restorer *restorer
	stopper  *stopper
	talker   *talker
	log      *slog.Logger
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.Watcher     = (*Driver)(nil)
	_ driver.Preflighter = (*Driver)(nil)
	_ driver.Observer    = (*Driver)(nil)
	_ driver.Keeper      = (*Driver)(nil)
	_ driver.Dialer      = (*Driver)(nil)
	_ driver.Early       = (*Driver)(nil)
	_ driver.Prober      = (*Driver)(nil)
	_ driver.Late        = (*Driver)(nil)
	_ driver.Offerer     = (*Driver)(nil)
	_ driver.Ender       = (*Driver)(nil)
	_ driver.Forgetter   = (*Driver)(nil)
)

// New makes a driver. It doesn't connect to the engine, which may not run yet.
func New(o Options) (*Driver, error) {
	if !strings.HasPrefix(o.Engine, "unix://") {
		return nil, fmt.Errorf("engine %q: want unix:///path/of/its/socket, of an engine on this host", o.Engine)
	}
	if !schemas.ValidToken(o.Instance) {
		return nil, fmt.Errorf("instance %q: want 1 to 64 of A-Za-z0-9_-", o.Instance)
	}
	if !filepath.IsAbs(o.Data) {
		return nil, fmt.Errorf("data directory %q must be an absolute path", o.Data)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("create the docker driver's directory: %w", err)
	}
	c, err := client.New(client.WithHost(o.Engine))
	if err != nil {
		return nil, fmt.Errorf("use the engine at %s: %w", o.Engine, err)
	}
	return assemble(o, &engine{Client: c, address: o.Engine}), nil
}

// assemble makes the parts of a driver.
func assemble(o Options, e *engine) *Driver {
	d := &Driver{engine: e, notes: &notes{dir: o.Data, kept: make(chan struct{}, 1)}, storage: &storage{e}, log: o.Log}
	absence, gates := &absence{}, &gates{}
	describe, build := &describer{e, d.storage}, &builder{e, d.notes, o.Instance}
	d.claims = &claims{e, d.notes, o.Instance, o.Log}
	d.adoption = &adoption{e, d.notes, d.claims}
	d.states = &states{e, d.notes, absence}
	d.watcher = &watcher{e, d.notes, d.states, absence}
	d.observer = &observer{e, d.notes, d.states}
	d.pauser = &pauser{e, d.notes, d.states, gates}
	d.talker = &talker{e, d.notes, d.states, gates}
	d.remover = &remover{e, d.notes, o.Instance, o.Log, o.Failpoints}
	d.capturer = &capturer{e, d.notes, d.states, d.pauser, describe, d.remover, d.talker.dial, o.Log, o.Failpoints}
	d.starter = &starter{e, d.notes, d.states, d.claims, build, d.remover, o.Log, o.Failpoints}
	d.restorer = &restorer{e, d.notes, d.storage, d.claims, d.starter, build, o.Log, o.Failpoints}
	d.stopper = &stopper{e, d.notes, d.states, d.claims, d.remover, o.Log, o.Failpoints}
	return d
}

// Close closes the connection to the engine. Containers go on.
func (d *Driver) Close() error { return d.engine.Close() }

// Fingerprint implements driver.Driver. It fails if the engine doesn't answer or is too old.
func (d *Driver) Fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	return d.engine.fingerprint(ctx)
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	return d.starter.start(ctx, f, spec, begin)
}

// Capture implements driver.Driver.
func (d *Driver) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	return d.capturer.capture(ctx, f, sink)
}

// Thaw implements driver.Driver.
func (d *Driver) Thaw(ctx context.Context, f driver.Fence) error { return d.pauser.thaw(ctx, f) }

// Restore implements driver.Driver.
func (d *Driver) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, source driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	return d.restorer.restore(ctx, f, spec, source, boot, begin)
}

// Stop implements driver.Driver.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error { return d.stopper.stop(ctx, f) }

// Ended implements driver.Ender.
func (d *Driver) Ended(ctx context.Context, f driver.Fence) error { return d.stopper.ended(ctx, f) }

// Release implements driver.Releaser.
func (d *Driver) Release(ctx context.Context, f driver.Fence) error { return d.stopper.release(ctx, f) }

// Forget implements driver.Forgetter.
func (d *Driver) Forget(ctx context.Context, f driver.Fence) error { return d.stopper.forget(ctx, f) }

// Kept implements driver.Keeper.
func (d *Driver) Kept() ([]driver.Kept, error) { return d.stopper.kept() }

// Inspect implements driver.Driver.
func (d *Driver) Inspect(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	return d.states.inspect(ctx, uid)
}

// Exits implements driver.Watcher.
func (d *Driver) Exits(ctx context.Context) <-chan driver.Instance { return d.watcher.exits(ctx) }

// Preflight implements driver.Preflighter.
func (d *Driver) Preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	return d.capturer.preflight(ctx, uid)
}

// Observe implements driver.Observer.
func (d *Driver) Observe(ctx context.Context, uid schemas.UID) (driver.Observation, error) {
	return d.observer.observe(ctx, uid)
}

// Health implements driver.Prober with the container's own health check, if it has one.
func (d *Driver) Health(ctx context.Context, uid schemas.UID) (driver.Health, error) {
	return d.observer.health(ctx, uid)
}

// Dial implements driver.Dialer: the connection reads output, uses the container's terminal,
// runs commands in it and copies files.
func (d *Driver) Dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	return d.talker.dial(ctx, uid)
}

// Offers implements driver.Offerer: running containers whose label diapause.session asks for
// a session, and held ones that others have started.
func (d *Driver) Offers(ctx context.Context) <-chan driver.Offer { return d.adoption.offers(ctx) }

// Storage says, for a person, how the engine keeps the files of containers, and what follows
// for snapshots.
func (d *Driver) Storage(ctx context.Context) (string, error) { return d.storage.describe(ctx) }

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context) ([]driver.Instance, error) {
	all, err := d.notes.all()
	if err != nil {
		return nil, err
	}
	if err := d.engine.reach(ctx); err != nil {
		if driver.KindOf(err) != driver.Transient || ctx.Err() != nil {
			return nil, err
		}
		d.log.Warn("recover: the Docker engine doesn't answer, so its sessions are taken to be as noted", "err", err)
		return asNoted(all), nil
	}
	if slices.ContainsFunc(all, func(n note) bool { return n.Adopted && n.Phase != gone }) {
		unlock, err := d.claims.register(ctx)
		if err != nil {
			return nil, err
		}
		unlock()
	}
	if err := d.notes.prune(time.Now()); err != nil {
		return nil, err
	}
	var out []driver.Instance
	for _, n := range all {
		i, err := d.recoverOne(ctx, n)
		if errors.Is(err, driver.ErrNotHere) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, d.remover.sweep(ctx)
}

// asNoted gives the sessions that are on this host by their notes, while the engine doesn't answer.
func asNoted(all []note) (out []driver.Instance) {
	for _, n := range all {
		switch n.Phase {
		case here:
			out = append(out, driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Started: n.Began, State: driver.Running})
		case frozen:
			out = append(out, driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Started: n.Began, State: driver.Frozen})
		}
	}
	return out
}

// recoverOne removes what a crash left half made of a session, or gives its state. It only logs
// what can't be removed, so that other sessions don't wait for it: the next operation on the
// session tries again first.
func (d *Driver) recoverOne(ctx context.Context, n note) (driver.Instance, error) {
	if n.Phase == gone || n.Phase == held {
		return driver.Instance{}, driver.ErrNotHere
	}
	i, _, err := d.states.instance(ctx, n)
	var left error
	switch {
	case err == nil:
		left = d.remover.dropReplaced(ctx, &n)
	case errors.Is(err, driver.ErrNotHere):
		left = d.remover.unmake(ctx, n)
	}
	if left != nil && ctx.Err() != nil {
		return i, left
	}
	if left != nil {
		d.log.Error("remove what a crash left of a session", "session", n.Name.String(), "err", left)
	}
	return i, err
}

// BeginsLate implements driver.Late: the engine looks for users and devices only when it starts
// a container.
func (d *Driver) BeginsLate() bool { return true }
