package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	n, err := d.vacant(ctx, f)
	if err != nil {
		return driver.Instance{}, err
	}
	if again, i, err := d.startAgain(ctx, f, n, begin); again {
		return i, err
	}
	o, _, err := optionsOf(spec)
	if err != nil {
		return driver.Instance{}, err
	}
	if o.Container != "" {
		return d.adopt(ctx, f, n, o, begin)
	}
	p, err := plan(f, spec)
	if err != nil {
		return driver.Instance{}, err
	}
	kept := n.Phase == held && !n.Adopted // without a container: that one has been removed
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Kept: kept, Image: n.Image, Nameless: n.Nameless, Binds: o.Binds, Shared: o.SharedVolumes}
	i, err := d.launch(ctx, f, &n, func(ctx context.Context) error { return d.make(ctx, f, &n, spec, p) }, begin, nil)
	return i, err
}

// vacant gives what is known of a session that nothing may be of here.
func (d *Driver) vacant(ctx context.Context, f driver.Fence) (note, error) {
	n, err := d.notes.pass(f)
	if err != nil {
		return n, err
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if f.Guard {
		return n, refuse("session %s is to be resumed elsewhere when its host is gone, but a container can't freeze by itself before: make it with --on-host-loss wait", f.Name)
	}
	if _, _, err := d.instance(ctx, n); err == nil {
		return n, refuse("session %s is on this host already", f.Name)
	} else if !errors.Is(err, driver.ErrNotHere) {
		return n, err
	}
	if n.Phase != gone && n.Phase != held {
		if err := d.unmake(ctx, n); err != nil { // of an attempt that was cut off
			return n, err
		}
		if n, err = d.notes.read(f.UID); err != nil {
			return n, err
		}
	}
	return n, d.reach(ctx)
}

// launch makes a container, asks whether it may run, and starts it. After an error
// nothing of it is left, unless it may have run.
func (d *Driver) launch(ctx context.Context, f driver.Fence, n *note, build func(context.Context) error, begin func(context.Context) error, last func(context.Context) error) (driver.Instance, error) {
	err := d.notes.write(*n)
	if err == nil {
		err = build(ctx)
	}
	if err == nil {
		err = d.startable(ctx, *n)
	}
	if err == nil {
		err = begin(ctx)
	}
	if err == nil {
		err = leased(f)
	}
	if err == nil && last != nil {
		err = last(ctx)
	}
	if err == nil {
		err = d.run(ctx, n)
	}
	if err != nil {
		undo, done := undoing(ctx)
		defer done()
		if ranAnyway(d, undo, *n, err) {
			return driver.Instance{}, err
		}
		return driver.Instance{}, errors.Join(err, d.unmake(undo, *n))
	}
	return d.Inspect(ctx, f.UID)
}

// startable looks for what would keep a container that is all made from being started.
func (d *Driver) startable(ctx context.Context, n note) error {
	if n.Still != nil { // it isn't to be
		return nil
	}
	if err := d.executable(ctx, n.Container); err != nil {
		return err
	}
	return d.portsFree(ctx, n.Container)
}

// ranAnyway reports whether a container whose start failed with why may have executed
// something. One that is gone may have, unless the engine said that it didn't start it.
func ranAnyway(d *Driver, ctx context.Context, n note, why error) bool {
	if n.Phase != here {
		return false
	}
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return !cerrdefs.IsInternal(why) && !cerrdefs.IsNotFound(why) && !cerrdefs.IsConflict(why) && !cerrdefs.IsInvalidArgument(why)
	}
	return err != nil || !neverRan(&got.Container)
}

// run starts a container that is all made, unless it didn't run when it was captured.
func (d *Driver) run(ctx context.Context, n *note) error {
	if n.Still != nil {
		got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err != nil {
			return d.asked("look at the container of session "+n.Name.String(), err)
		}
		n.Still = stillOf(got.Container.State) // as it is here; somebody may have started it
	}
	n.Phase, n.Began = here, time.Now().UTC()
	if err := d.notes.write(*n); err != nil {
		return err
	}
	if err := d.options.Failpoints.At(ctx, failpoint.DockerStarts); err != nil {
		return err
	}
	if n.Still == nil {
		if _, err := d.engine.ContainerStart(ctx, n.Container, client.ContainerStartOptions{}); err != nil {
			return d.unstartable(*n, err)
		}
	}
	if err := d.options.Failpoints.At(ctx, failpoint.DockerBegun); err != nil {
		return err
	}
	if n.Volumes, n.Networks = nil, nil; n.Adopted { // from now on they are the container's
		if err := d.notes.write(*n); err != nil {
			return err
		}
	}
	if err := d.settle(ctx, n); err != nil { // whatever is done with it next does it first
		d.options.Log.Warn("what a session was restored in the place of is still there", "session", n.Name.String(), "err", err)
	}
	return d.options.Failpoints.At(ctx, failpoint.DockerRuns)
}

// BeginsLate implements driver.Late: the engine looks for users, devices and the like only
// when it starts a container.
func (d *Driver) BeginsLate() bool { return true }

// passing are words of errors that may be gone at the next start.
var passing = []string{
	unix.EAGAIN.Error(), unix.ENOMEM.Error(), unix.EADDRINUSE.Error(), context.DeadlineExceeded.Error(),
	"port is already allocated", "connection error", "transport is closing",
}

// unstartable tells of a container that the engine couldn't start: it would say the same
// again, though it calls most of it an error of its own.
func (d *Driver) unstartable(n note, err error) error {
	out := d.asked("start the container of session "+n.Name.String(), err)
	var e *driver.Error
	if !errors.As(out, &e) || !cerrdefs.IsInternal(err) {
		return out
	}
	if !slices.ContainsFunc(passing, func(words string) bool { return strings.Contains(err.Error(), words) }) {
		e.Kind = driver.Refused
	}
	return out
}

// mark labels what is made for a session, and goes with it.
func (d *Driver) mark(labels map[string]string, n *note) map[string]string {
	out := map[string]string{labelHost: d.options.Instance, labelUID: string(n.UID), labelSession: n.Name.String()}
	return with(out, labels)
}

// with adds labels to others, which stay as they are.
func with(labels, more map[string]string) map[string]string {
	for k, v := range more {
		if _, there := labels[k]; !there {
			labels[k] = v
		}
	}
	return labels
}

// make makes the container of a new session, with the volumes that it names.
func (d *Driver) make(ctx context.Context, f driver.Fence, n *note, spec schemas.Spec, p planned) error {
	if _, err := d.engine.ImageInspect(ctx, p.asked.Image); missing(err) {
		if err := d.pull(ctx, p.asked.Image); err != nil {
			return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("image %s is not on the engine of this host, and can't be pulled", p.asked.Image), Err: err}
		}
	} else if err != nil {
		return d.asked("look for image "+p.asked.Image, err)
	}
	for _, v := range p.volumes {
		if _, err := d.volume(ctx, n, client.VolumeCreateOptions{Name: v}); err != nil {
			return err
		}
	}
	var places []endpoint
	names := p.asked.Networks
	if len(names) == 0 && spec.Network != "" {
		names = []string{spec.Network}
	}
	for _, name := range names {
		if _, err := d.engine.NetworkInspect(ctx, name, client.NetworkInspectOptions{}); err != nil {
			return d.asked("find network "+name, err)
		}
		e := endpoint{Network: name, Settings: &network.EndpointSettings{}}
		if len(p.asked.Networks) > 0 && !isEnginesOwn(name) {
			e.Settings.Aliases = p.asked.Aliases
		}
		places = append(places, e)
	}
	return d.create(ctx, n, p.options, places)
}

// create makes a container in its networks, and notes which one it is.
func (d *Driver) create(ctx context.Context, n *note, o client.ContainerCreateOptions, places []endpoint) error {
	if n.Adopted {
		o.Config.Labels = with(map[string]string{labelFor: string(n.UID)}, o.Config.Labels)
	} else {
		o.Config.Labels = d.mark(o.Config.Labels, n)
	}
	if len(places) > 0 {
		first := firstOf(places, o.HostConfig.NetworkMode)
		o.HostConfig.NetworkMode = container.NetworkMode(places[first].Network)
		if !isEnginesOwn(places[first].Network) {
			o.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{places[first].Network: places[first].Settings}}
		}
		places = append(append([]endpoint{}, places[:first]...), places[first+1:]...)
	}
	got, err := d.engine.ContainerCreate(ctx, o)
	if err != nil {
		return d.asked("make container "+o.Name, err)
	}
	n.Container = got.ID
	if err := d.notes.write(*n); err != nil {
		return err
	}
	if err := d.noteNameless(ctx, n); err != nil { // written with the next note, before it runs
		return err
	}
	for _, e := range places {
		if _, err := d.engine.NetworkConnect(ctx, e.Network, client.NetworkConnectOptions{Container: got.ID, EndpointConfig: e.Settings}); err != nil {
			return d.asked("connect container "+o.Name+" to network "+e.Network, err)
		}
	}
	return nil
}

// firstOf finds the network that a container is made in: the others are joined then.
func firstOf(places []endpoint, mode container.NetworkMode) int {
	for i, e := range places {
		if e.Network == string(mode) || mode == "default" && e.Network == "bridge" {
			return i
		}
	}
	return 0
}

func isEnginesOwn(network string) bool {
	for _, n := range enginesOwn {
		if n == network {
			return true
		}
	}
	return false
}

// volume makes a named volume for a session, unless there is one of that name.
func (d *Driver) volume(ctx context.Context, n *note, o client.VolumeCreateOptions) (made bool, err error) {
	_, err = d.engine.VolumeInspect(ctx, o.Name, client.VolumeInspectOptions{})
	if err == nil {
		return false, nil
	}
	if !missing(err) {
		return false, d.asked("look for volume "+o.Name, err)
	}
	if !n.Adopted {
		o.Labels = d.mark(o.Labels, n)
	} else {
		n.Volumes = append(n.Volumes, o.Name)
		if err := d.notes.write(*n); err != nil {
			return false, err
		}
	}
	if _, err := d.engine.VolumeCreate(ctx, o); err != nil {
		return false, d.asked("make volume "+o.Name, err)
	}
	return true, nil
}

// adopt makes a session of a container that is there, as it is.
func (d *Driver) adopt(ctx context.Context, f driver.Fence, n note, o dockerspec.Options, begin func(context.Context) error) (driver.Instance, error) {
	got, err := d.engine.ContainerInspect(ctx, o.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return driver.Instance{}, refuse("there is no container %s on the engine of this host", o.Container)
	}
	if err != nil {
		return driver.Instance{}, d.asked("look at container "+o.Container, err)
	}
	c := &got.Container
	quiet := stillOf(c.State)
	if !c.State.Running && quiet == nil {
		return driver.Instance{}, refuse("container %s is %s: only one that is created, runs, is paused or has ended can become a session", o.Container, c.State.Status)
	}
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Container: c.ID, Adopted: true, Remove: o.Remove || c.HostConfig.AutoRemove, Binds: o.Binds, Shared: o.SharedVolumes, Still: quiet}
	if n.Began, err = time.Parse(time.RFC3339Nano, c.State.StartedAt); err != nil {
		return driver.Instance{}, fmt.Errorf("learn when container %s was started: %w", c.Name[1:], err)
	}
	if err := d.claim(ctx, c, n); err != nil {
		return driver.Instance{}, err
	}
	if err := begin(ctx); err != nil {
		n.Phase, n.Container = gone, ""
		return driver.Instance{}, errors.Join(err, d.notes.write(n))
	}
	n.Phase = here
	if err := d.notes.write(n); err != nil {
		return driver.Instance{}, err
	}
	return d.Inspect(ctx, f.UID)
}
