package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// builder makes the containers of sessions, and their volumes. It starts none.
type builder struct {
	engine *engine
	notes  *notes
	host   string // the instance
}

// enginesOwn are the networks that every engine has.
var enginesOwn = []string{"bridge", "host", "none"}

// mark adds the labels of what is made for a session and removed with it.
func (b *builder) mark(labels map[string]string, n *note) map[string]string {
	out := map[string]string{labelHost: b.host, labelUID: string(n.UID), labelSession: n.Name.String()}
	return with(out, labels)
}

// make creates the container of a new session and the volumes that it names.
func (b *builder) make(ctx context.Context, f driver.Fence, n *note, spec schemas.Spec, p planned) error {
	if _, err := b.engine.ImageInspect(ctx, p.asked.Image); missing(err) {
		if err := b.engine.pull(ctx, p.asked.Image); err != nil {
			return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("image %s is not on this engine, and can't be pulled", p.asked.Image), Err: err}
		}
	} else if err != nil {
		return b.engine.failed("look for image "+p.asked.Image, err)
	}
	for _, v := range p.volumes {
		if _, err := b.volume(ctx, n, client.VolumeCreateOptions{Name: v}); err != nil {
			return err
		}
	}
	var places []endpoint
	names := p.asked.Networks
	if len(names) == 0 && spec.Network != "" {
		names = []string{spec.Network}
	}
	for _, name := range names {
		if _, err := b.engine.NetworkInspect(ctx, name, client.NetworkInspectOptions{}); err != nil {
			return b.engine.failed("find network "+name, err)
		}
		e := endpoint{Network: name, Settings: &network.EndpointSettings{}}
		if len(p.asked.Networks) > 0 && !isEnginesOwn(name) {
			e.Settings.Aliases = p.asked.Aliases
		}
		places = append(places, e)
	}
	return b.create(ctx, n, p.options, places)
}

// create creates a container in its networks and notes its id.
func (b *builder) create(ctx context.Context, n *note, o client.ContainerCreateOptions, places []endpoint) error {
	if n.Adopted {
		o.Config.Labels = with(map[string]string{labelFor: string(n.UID)}, o.Config.Labels)
	} else {
		o.Config.Labels = b.mark(o.Config.Labels, n)
	}
	if len(places) > 0 {
		first := firstOf(places, o.HostConfig.NetworkMode)
		o.HostConfig.NetworkMode = container.NetworkMode(places[first].Network)
		if !isEnginesOwn(places[first].Network) {
			o.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{places[first].Network: places[first].Settings}}
		}
		places = append(append([]endpoint{}, places[:first]...), places[first+1:]...)
	}
	got, err := b.engine.ContainerCreate(ctx, o)
	if err != nil {
		return b.nameTaken(*n, o.Name, b.engine.failed("create container "+o.Name, err))
	}
	n.Container = got.ID
	if err := b.notes.write(*n); err != nil {
		return err
	}
	if err := b.noteAnonymous(ctx, n); err != nil { // written with the next note, before it runs
		return err
	}
	for _, e := range places {
		if _, err := b.engine.NetworkConnect(ctx, e.Network, client.NetworkConnectOptions{Container: got.ID, EndpointConfig: e.Settings}); err != nil {
			return b.engine.failed("connect container "+o.Name+" to network "+e.Network, err)
		}
	}
	return nil
}

// firstOf finds the network that a container is created in. It joins the others afterwards.
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

// volume creates a named volume for a session, unless there is one of that name.
func (b *builder) volume(ctx context.Context, n *note, o client.VolumeCreateOptions) (made bool, err error) {
	_, err = b.engine.VolumeInspect(ctx, o.Name, client.VolumeInspectOptions{})
	if err == nil {
		return false, nil
	}
	if !missing(err) {
		return false, b.engine.failed("look for volume "+o.Name, err)
	}
	if !n.Adopted {
		o.Labels = b.mark(o.Labels, n)
	} else {
		n.Volumes = append(n.Volumes, o.Name)
		if err := b.notes.write(*n); err != nil {
			return false, err
		}
	}
	if _, err := b.engine.VolumeCreate(ctx, o); err != nil {
		return false, b.engine.failed("create volume "+o.Name, err)
	}
	return true, nil
}

// nameTaken says what to do about an error, if another container has the name of an adopted session's.
func (b *builder) nameTaken(n note, name string, err error) error {
	if !n.Adopted || !cerrdefs.IsConflict(err) {
		return err
	}
	return hinted(err, fmt.Sprintf("remove that container, or make it the session: `diapause adopt --container %s --name %s`", name, n.Name))
}
