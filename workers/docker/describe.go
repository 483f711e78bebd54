package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
)

// describer reads the configuration of a container from the engine.
type describer struct {
	engine  *engine
	storage *storage
}

// The first elements of the names of an image's entries.
const (
	metaEntry = "meta/docker.json"
	baseEntry = "base/image.tar" // the image that it was made from, unless a registry has it
	partUpper = "upper"          // the changes of its file system, as overlay2 keeps them
	partRoot  = "root"           // or all of its file system
)

// description is the content of metaEntry: all of a container but its files.
type description struct {
	Version    int                   `json:"version"` // 1
	Name       string                `json:"name"`    // of the container, without a slash
	Adopted    bool                  `json:"adopted,omitempty"`
	Paused     bool                  `json:"paused,omitempty"` // by someone else
	NotRunning *notRunning           `json:"still,omitempty"`  // set if it didn't run
	Files      string                `json:"files"`            // partUpper or partRoot
	Image      baseImage             `json:"image"`
	Config     *container.Config     `json:"config"`
	HostConfig *container.HostConfig `json:"host_config"`
	Networks   []endpoint            `json:"networks,omitempty"`
	Mounts     []mounted             `json:"mounts,omitempty"`

	upper string // where partUpper is on this host
}

// baseImage identifies the image that a container was made from, on any engine.
type baseImage struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"` // when the container was made
	Digests []string `json:"digests,omitempty"`
	Layers  []string `json:"layers,omitempty"` // digests of their contents: unlike ids the same on each engine
	Arch    string   `json:"arch"`
	Stored  bool     `json:"stored,omitempty"` // whether baseEntry holds it
}

// endpoint is a container's place in a network.
type endpoint struct {
	Network  string                    `json:"network"`
	Settings *network.EndpointSettings `json:"settings"`
	// Made is how to create the network if it doesn't exist; nil for the engine's own.
	Made *networkSpec `json:"made,omitempty"`
}

type networkSpec struct {
	Driver     string            `json:"driver"`
	IPAM       network.IPAM      `json:"ipam"`
	Internal   bool              `json:"internal,omitempty"`
	Attachable bool              `json:"attachable,omitempty"`
	IPv6       bool              `json:"ipv6,omitempty"`
	Options    map[string]string `json:"options,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// mounted is one mount of a container.
type mounted struct {
	Type      mount.Type        `json:"type"`
	At        string            `json:"at"`             // in the container
	Name      string            `json:"name,omitempty"` // of a volume
	Source    string            `json:"source,omitempty"`
	Anonymous bool              `json:"anonymous,omitempty"` // a volume that the engine named
	Own       bool              `json:"own,omitempty"`       // a volume made for the session
	Driver    string            `json:"driver,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	ReadOnly  bool              `json:"read_only,omitempty"`
	Part      string            `json:"part,omitempty"`   // where the image holds its contents; "" if it doesn't
	Shared    []string          `json:"shared,omitempty"` // other containers that used it when it was captured

	path string // on this host
}

// container describes a container that was inspected.
func (d *describer) container(ctx context.Context, n note, c *container.InspectResponse) (*description, error) {
	m := &description{
		Version: 1, Name: strings.TrimPrefix(c.Name, "/"), Adopted: n.Adopted, Paused: c.State.Paused && n.Phase != frozen || n.Paused,
		Config: c.Config, HostConfig: c.HostConfig, Files: partRoot,
	}
	if n.stillNotRunning(c.State) {
		m.NotRunning = n.NotRunning
	}
	var err error
	if m.upper, err = d.storage.upper(ctx, c); err != nil {
		return nil, err
	}
	if m.upper != "" {
		m.Files = partUpper
	}
	m.Config.Labels = maps.Clone(m.Config.Labels)
	for _, l := range ownLabels {
		delete(m.Config.Labels, l)
	}
	if err := d.image(ctx, m, c); err != nil {
		return nil, err
	}
	if err := d.mounts(ctx, n, m, c); err != nil {
		return nil, err
	}
	return m, d.networks(ctx, m, c)
}

func (d *describer) image(ctx context.Context, m *description, c *container.InspectResponse) error {
	m.Image = baseImage{ID: c.Image, Name: c.Config.Image}
	got, err := d.engine.ImageInspect(ctx, c.Image)
	if missing(err) && m.Files == partRoot {
		return nil // all of the file system is captured
	}
	if missing(err) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("capture container %s: its image %s was removed from the engine", m.Name, c.Config.Image), Hint: hintPull, Err: err}
	}
	if err != nil {
		return d.engine.failed("inspect image "+c.Config.Image, err)
	}
	m.Image.Digests, m.Image.Arch = got.RepoDigests, got.Architecture
	m.Image.Layers = got.RootFS.Layers
	if m.Files == partUpper {
		pulled, err := d.storage.fromRegistry(ctx, c, &got.InspectResponse)
		m.Image.Stored = !pulled
		return err
	}
	return nil
}

// mounts lists the mounts in a stable order, and assigns parts of the image to those whose
// contents are captured.
func (d *describer) mounts(ctx context.Context, n note, m *description, c *container.InspectResponse) error {
	all := slices.Clone(c.Mounts)
	slices.SortFunc(all, func(a, b container.MountPoint) int { return strings.Compare(a.Destination, b.Destination) })
	for i, p := range all {
		e := mounted{Type: p.Type, At: p.Destination, Name: p.Name, Source: p.Source, Driver: p.Driver, ReadOnly: !p.RW, path: p.Source}
		switch p.Type {
		case mount.TypeVolume:
			if err := d.volume(ctx, n, &e, c); err != nil {
				return err
			}
			if e.Driver == "local" && kindOfVolume(e.Options) == "" {
				e.Part = fmt.Sprintf("volumes/%d", i)
			}
		case mount.TypeBind:
			if st, err := os.Stat(p.Source); n.Binds && err == nil && st.IsDir() {
				e.Part = fmt.Sprintf("binds/%d", i)
			}
		}
		m.Mounts = append(m.Mounts, e)
	}
	return nil
}

// kindOfVolume gives the type of what a volume of the local driver mounts, "" for a directory of
// the engine's.
func kindOfVolume(options map[string]string) string {
	if options["type"] == "" && options["device"] == "" {
		return ""
	}
	if options["type"] == "none" {
		return "bind"
	}
	return options["type"]
}

func (d *describer) volume(ctx context.Context, n note, e *mounted, c *container.InspectResponse) error {
	got, err := d.engine.VolumeInspect(ctx, e.Name, client.VolumeInspectOptions{})
	if err != nil {
		return d.engine.failed("inspect volume "+e.Name, err)
	}
	v := got.Volume
	e.Driver, e.Options, e.Labels, e.path = v.Driver, v.Options, maps.Clone(v.Labels), v.Mountpoint
	e.Own = v.Labels[labelUID] == string(n.UID)
	e.Anonymous = anonymous(e, c)
	for _, l := range ownLabels {
		delete(e.Labels, l)
	}
	e.Shared, err = d.engine.usersOf(ctx, e.Name, c.ID)
	return err
}

// anonymous reports whether the engine chose a volume's name.
func anonymous(e *mounted, c *container.InspectResponse) bool {
	for _, b := range c.HostConfig.Binds {
		if strings.HasPrefix(b, e.Name+":") {
			return false
		}
	}
	for _, m := range c.HostConfig.Mounts {
		if m.Type == mount.TypeVolume && m.Source == e.Name {
			return false
		}
	}
	for _, from := range c.HostConfig.VolumesFrom {
		if from != "" && len(e.Shared) > 0 {
			return false
		}
	}
	return len(e.Name) == 64 && strings.Trim(e.Name, "0123456789abcdef") == ""
}

// usersOf lists the containers that use a volume, except for one.
func (e *engine) usersOf(ctx context.Context, volume, but string) ([]string, error) {
	got, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("volume", volume)})
	if err != nil {
		return nil, e.failed("list the users of volume "+volume, err)
	}
	var out []string
	for _, c := range got.Items {
		if c.ID != but && len(c.Names) > 0 {
			out = append(out, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (d *describer) networks(ctx context.Context, m *description, c *container.InspectResponse) error {
	if c.NetworkSettings == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.NetworkSettings.Networks)) {
		e := endpoint{Network: name, Settings: given(c, c.NetworkSettings.Networks[name])}
		if !slices.Contains(enginesOwn, name) {
			got, err := d.engine.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
			if err != nil {
				return d.engine.failed("inspect network "+name, err)
			}
			w := got.Network
			labels := maps.Clone(w.Labels)
			for _, l := range ownLabels {
				delete(labels, l)
			}
			e.Made = &networkSpec{Driver: w.Driver, IPAM: w.IPAM, Internal: w.Internal, Attachable: w.Attachable, IPv6: w.EnableIPv6, Options: w.Options, Labels: labels}
		}
		m.Networks = append(m.Networks, e)
	}
	return nil
}

// given keeps of an endpoint what was configured, without what the engine chose.
func given(c *container.InspectResponse, s *network.EndpointSettings) *network.EndpointSettings {
	out := &network.EndpointSettings{IPAMConfig: s.IPAMConfig, Links: s.Links, DriverOpts: s.DriverOpts, GwPriority: s.GwPriority}
	for _, a := range s.Aliases {
		if a != c.ID[:min(12, len(c.ID))] { // the engine's own
			out.Aliases = append(out.Aliases, a)
		}
	}
	return out
}

// readMeta reads the description of a container from an image.
func readMeta(source driver.Source) (*description, error) {
	r, err := source.Open(metaEntry)
	if err != nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: "the image is not of a container", Err: err}
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the description of the container: %w", err)
	}
	m := &description{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: "decode the description of the container", Err: err}
	}
	if m.Version != 1 || m.Config == nil || m.HostConfig == nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the container is described in version %d; this program knows 1", m.Version)}
	}
	return m, nil
}

func entryFile(name string) image.Entry {
	return image.Entry{Name: name, Type: image.TypeFile, Mode: 0o600, Size: -1}
}

// inside reports whether a path in a container is dir or below it.
func inside(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
