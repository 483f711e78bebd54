package docker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// restorer brings sessions back from images.
type restorer struct {
	engine     *engine
	notes      *notes
	storage    *storage
	claims     *claims
	starter    *starter
	builder    *builder
	log        *slog.Logger
	failpoints *failpoint.Set
}

// restore implements driver.Driver. It replaces a held container when the new one is ready to
// start.
func (rs *restorer) restore(ctx context.Context, f driver.Fence, spec schemas.Spec, source driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	n, err := rs.starter.vacant(ctx, f)
	if err != nil {
		return driver.Instance{}, err
	}
	if boot == schemas.BootClean || boot == "" {
		return driver.Instance{}, fmt.Errorf("restore session %s: boot %q is no restore", f.Name, boot)
	}
	m, err := readMeta(source)
	if err != nil {
		return driver.Instance{}, err
	}
	if m.Image.Arch != "" && m.Image.Arch != runtime.GOARCH {
		return driver.Instance{}, refuse("container %s has programs for %s; this host is %s", m.Name, m.Image.Arch, runtime.GOARCH)
	}
	r := &restoring{
		restorer: rs, images: &baseImages{rs.engine, rs.notes, m, source}, f: f, source: source, boot: boot, meta: m,
		shared: map[string]bool{}, fresh: map[string]bool{},
	}
	if r.old, err = rs.starter.held(ctx, n); err != nil {
		return driver.Instance{}, err
	}
	fresh := note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Adopted: m.Adopted && !r.apart(), Old: r.old}
	if r.old != "" { // it needs them if the restore fails
		fresh.Restart, fresh.Image = n.Restart, n.Image
	} else if n.Phase == held && !n.Adopted {
		fresh.Kept, fresh.Image, fresh.Anonymous = true, n.Image, n.Anonymous
	}
	fresh.NotRunning = m.NotRunning
	o, ok, err := optionsOf(spec)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		fresh.Remove, fresh.Binds, fresh.Shared = o.Remove, o.Binds, o.SharedVolumes
	}
	fresh.Remove = fresh.Remove || m.HostConfig.AutoRemove // then the engine removes it
	if fresh.Adopted {
		unlock, err := rs.claims.register(ctx)
		if err != nil {
			return driver.Instance{}, err
		}
		unlock()
	}
	i, err := rs.starter.launch(ctx, f, &fresh, func(ctx context.Context) error { return r.remake(ctx, &fresh) }, begin, func(ctx context.Context) error { return r.takePlace(ctx, &fresh) })
	if err != nil || !m.Paused {
		return i, err
	}
	if _, err := rs.engine.ContainerPause(ctx, fresh.Container, client.ContainerPauseOptions{}); err != nil {
		rs.log.Warn("pause a restored container that was paused: it runs", "session", f.Name.String(), "err", err)
	}
	return i, nil
}

// restoring is one restore.
type restoring struct {
	*restorer
	images *baseImages
	f      driver.Fence
	source driver.Source
	boot   schemas.Boot
	meta   *description
	old    string          // the held container
	shared map[string]bool // volumes that other containers use
	fresh  map[string]bool // volumes that it created
}

// apart reports whether the new container runs beside the captured one, so that it needs names,
// ports and volumes of its own.
func (r *restoring) apart() bool {
	return r.boot == schemas.BootFork || r.boot == schemas.BootTrial
}

// held gives the id of the held container of a session, "" if there is none.
func (s *starter) held(ctx context.Context, n note) (string, error) {
	if n.Phase != held || n.Container == "" {
		return "", nil
	}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return "", nil
	}
	if err != nil {
		return "", s.engine.failed("inspect the held container of session "+n.Name.String(), err)
	}
	if got.Container.State.Running {
		return "", startedMeanwhile(n, got.Container.Name[1:])
	}
	return n.Container, nil
}

// startedMeanwhile is the error of a resume whose held container runs.
func startedMeanwhile(n note, called string) error {
	return &driver.Error{
		Kind: driver.Taken, Text: fmt.Sprintf("container %s was started by someone else while session %s was suspended", called, n.Name),
		Hint: fmt.Sprintf("`diapause resume --clean %s` goes on with it; stop it if what it did since may be lost", n.Name),
	}
}

// remake creates the container with all that it had, up to its start.
func (r *restoring) remake(ctx context.Context, n *note) error {
	ref, err := r.images.ensure(ctx, n)
	if err != nil {
		return err
	}
	places, err := r.networks(ctx, n)
	if err != nil {
		return err
	}
	names, kept, err := r.volumes(ctx, n)
	if err != nil {
		return err
	}
	o := client.ContainerCreateOptions{Config: r.meta.Config, HostConfig: r.meta.HostConfig, Name: r.name()}
	o.Config.Image = ref
	r.adapt(o.Config, o.HostConfig, names)
	if err := r.bindsThere(o.HostConfig); err != nil {
		return err
	}
	if err := r.builder.create(ctx, n, o, places); err != nil {
		return err
	}
	if err := r.failpoints.At(ctx, failpoint.DockerMade); err != nil {
		return err
	}
	if err := r.restoreExitStatus(ctx, n); err != nil {
		return err
	}
	c, err := r.fill(ctx, n)
	if err != nil {
		return err
	}
	// What would fail later fails here, before anything that exists is changed.
	if err := r.builder.startable(ctx, *n); err != nil {
		return err
	}
	if err := leased(r.f); err != nil {
		return err
	}
	if err := r.fillMounts(ctx, n, c, kept); err != nil {
		return err
	}
	return r.failpoints.At(ctx, failpoint.DockerFilled)
}

// name is the name of the container until it takes its place.
func (r *restoring) name() string {
	switch {
	case r.boot == schemas.BootTrial: // the session's own container may be here
		return "diapause-" + string(r.f.UID)
	case r.apart():
		return containerName(r.f, dockerspec.Options{})
	case r.old != "":
		return fmt.Sprintf("%s.diapause-%d", r.meta.Name, r.f.Epoch)
	}
	return r.meta.Name
}

// adapt changes what can't be as it was in a configuration.
func (r *restoring) adapt(c *container.Config, h *container.HostConfig, names map[string]string) {
	h.ContainerIDFile = ""
	h.Binds = slices.Clone(h.Binds)
	for i, b := range h.Binds {
		from, rest, _ := strings.Cut(b, ":")
		if to, ok := names[from]; ok {
			h.Binds[i] = to + ":" + rest
		}
	}
	for i, m := range h.Mounts {
		if to, ok := names[m.Source]; ok && m.Type == mount.TypeVolume {
			h.Mounts[i].Source = to
		}
	}
	if len(h.VolumesFrom) > 0 {
		r.ownMounts(h, names)
	}
	if !r.apart() {
		return
	}
	if len(c.Hostname) == 12 && strings.Trim(c.Hostname, "0123456789abcdef") == "" {
		c.Hostname = "" // the engine's own choice
	}
	for port, bindings := range h.PortBindings {
		for i := range bindings {
			bindings[i].HostPort = ""
		}
		h.PortBindings[port] = bindings
	}
}

// ownMounts replaces --volumes-from by mounts of the container's own: the other container may not
// be here.
func (r *restoring) ownMounts(h *container.HostConfig, names map[string]string) {
	h.VolumesFrom = nil
	there := func(at string) bool {
		return slices.ContainsFunc(h.Binds, func(b string) bool { return strings.Contains(b, ":"+at) }) ||
			slices.ContainsFunc(h.Mounts, func(m mount.Mount) bool { return m.Target == at })
	}
	for _, m := range r.meta.Mounts {
		if m.Anonymous || m.Type == mount.TypeTmpfs || there(m.At) {
			continue
		}
		from := m.Source
		if m.Type == mount.TypeVolume {
			from = orSame(names, m.Name)
		}
		bind := from + ":" + m.At
		if m.ReadOnly {
			bind += ":ro"
		}
		h.Binds = append(h.Binds, bind)
	}
}

func orSame(names map[string]string, name string) string {
	if to, ok := names[name]; ok {
		return to
	}
	return name
}

// networks creates the networks that this engine doesn't have, and gives the container's endpoints.
func (r *restoring) networks(ctx context.Context, n *note) ([]endpoint, error) {
	places := slices.Clone(r.meta.Networks)
	for i, e := range places {
		if r.apart() {
			s := *e.Settings
			s.IPAMConfig = nil
			places[i].Settings = &s
		}
		if e.Made == nil {
			continue
		}
		_, err := r.engine.NetworkInspect(ctx, e.Network, client.NetworkInspectOptions{})
		if err == nil {
			continue
		}
		if !missing(err) {
			return nil, r.engine.failed("look for network "+e.Network, err)
		}
		labels := e.Made.Labels
		if !n.Adopted {
			labels = r.builder.mark(labels, n)
		} else {
			n.Networks = append(n.Networks, e.Network)
			if err := r.notes.write(*n); err != nil {
				return nil, err
			}
		}
		ipam := e.Made.IPAM
		_, err = r.engine.NetworkCreate(ctx, e.Network, client.NetworkCreateOptions{
			Driver: e.Made.Driver, IPAM: &network.IPAM{Driver: ipam.Driver, Options: ipam.Options, Config: ipam.Config}, Internal: e.Made.Internal,
			Attachable: e.Made.Attachable, EnableIPv6: &e.Made.IPv6, Options: e.Made.Options, Labels: labels,
		})
		if err != nil {
			return nil, r.engine.failed("create network "+e.Network+" of the container", err)
		}
	}
	return places, nil
}

// volumes creates the named volumes that this engine doesn't have. names maps volumes to those
// that replace them; the contents of the volumes in kept stay as they are.
func (r *restoring) volumes(ctx context.Context, n *note) (names map[string]string, kept map[string]bool, err error) {
	names, kept = map[string]string{}, map[string]bool{}
	for _, m := range r.meta.Mounts {
		if m.Type != mount.TypeVolume || m.Anonymous {
			continue
		}
		name := m.Name
		if r.apart() && m.Part != "" {
			name = fmt.Sprintf("%s-%s", m.Name, r.f.UID)
			names[m.Name] = name
		}
		made, err := r.builder.volume(ctx, n, client.VolumeCreateOptions{Name: name, Driver: m.Driver, DriverOpts: m.Options, Labels: m.Labels})
		if err != nil {
			return nil, nil, err
		}
		if made {
			r.fresh[name] = true
			continue
		}
		by, err := r.engine.usersOf(ctx, name, r.old)
		if err != nil {
			return nil, nil, err
		}
		if r.shared[name] = len(by) > 0; len(by) > 0 && !n.Shared {
			kept[name] = true
			r.log.Warn("leave a volume as it is: other containers use it, and --shared-volumes wasn't asked for",
				"session", r.f.Name.String(), "volume", name, "used by", strings.Join(by, ", "))
		}
	}
	return names, kept, nil
}

// bindsThere makes sure that the sources of bind mounts exist: the engine would create empty
// directories.
func (r *restoring) bindsThere(*container.HostConfig) error {
	for _, m := range r.meta.Mounts {
		if m.Type != mount.TypeBind {
			continue
		}
		there, err := exists(m.Source)
		if err != nil {
			return err
		}
		if !there && m.Part == "" {
			return hinted(refuse("bind mount %s of container %s: %s is not on this host", m.At, r.meta.Name, m.Source), "put it there, or capture the contents of bind mounts with --bind")
		}
	}
	return nil
}

// fill puts the files of the image into the layer of the new container. It gives the container.
func (r *restoring) fill(ctx context.Context, n *note) (*container.InspectResponse, error) {
	got, err := r.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return nil, r.engine.failed("inspect the container that it created", err)
	}
	c := &got.Container
	if c, ok := r.source.(driver.Checker); ok { // before anything is changed
		if err := c.CheckPacks(ctx); err != nil {
			return nil, err
		}
	}
	if r.meta.Files == partUpper {
		upper, err := r.storage.upper(ctx, c)
		if err != nil {
			return nil, err
		}
		if upper == "" {
			return nil, hinted(refuse("the snapshot holds a container's changes: this engine keeps no layers"), "resume it where the engine has overlay2, or the containerd image store with its socket")
		}
		if err := fillDir(ctx, r.source, partUpper, upper, true); err != nil {
			return nil, r.engine.writeFailed("fill the file system of container "+r.meta.Name, err)
		}
		r.images.known(c.Image)
	}
	return c, nil
}
