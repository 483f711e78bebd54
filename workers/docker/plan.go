package docker

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// Check refuses a spec that no engine could run.
func Check(s schemas.Spec) error {
	_, err := plan(driver.Fence{}, s)
	return err
}

// planned is a container to be created.
type planned struct {
	asked   dockerspec.Options
	options client.ContainerCreateOptions
	volumes []string // named ones
}

func refuse(format string, args ...any) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf(format, args...)}
}

// hinted adds to an error of the driver what to do about it.
func hinted(err error, hint string) error {
	var e *driver.Error
	if errors.As(err, &e) {
		e.Hint = hint
	}
	return err
}

// Hints that several errors give.
const (
	hintEngineAway = "see that it is running"
	hintPull       = "pull or load the image"
)

// optionsOf gives the options for this driver in a spec.
func optionsOf(s schemas.Spec) (o dockerspec.Options, ok bool, err error) {
	if o, ok, err = dockerspec.Of(s); err != nil {
		err = &driver.Error{Kind: driver.Refused, Text: "read the container's options", Err: err}
	}
	return o, ok, err
}

// plan translates a spec into a request to the engine.
func plan(f driver.Fence, s schemas.Spec) (planned, error) {
	d, _, err := optionsOf(s)
	switch {
	case err != nil:
		return planned{}, err
	case d.Image == "":
		return planned{}, refuse("a session of the docker driver needs --image")
	case s.Root != "":
		return planned{}, refuse("--root is for process trees: a container has its image's")
	case s.Disk > 0:
		return planned{}, refuse("--disk is for process trees: the engine has the files of containers")
	case s.Seccomp != "" || s.NoNewPrivs:
		return planned{}, refuse("--seccomp and --no-new-privs are for process trees: a container has the engine's")
	case len(s.CapAdd)+len(s.CapDrop) > 0:
		return planned{}, refuse("capabilities of a container are options of driver %s", dockerspec.Driver)
	case s.Hooks.OnSuspend != "" || s.Hooks.OnResume != "" || s.Hooks.OnFork != "":
		return planned{}, refuse("hooks are for process trees: a container's command starts afresh")
	}
	p := planned{asked: d}
	c := &container.Config{
		Image: d.Image, Cmd: s.Command, Entrypoint: d.Entrypoint, Env: s.Env, WorkingDir: s.Dir, User: s.User,
		Tty: s.TTY, OpenStdin: s.TTY, Hostname: d.Hostname, Labels: map[string]string{}, ExposedPorts: network.PortSet{}, Volumes: map[string]struct{}{},
	}
	h := &container.HostConfig{
		CapAdd: d.CapAdd, CapDrop: d.CapDrop, ExtraHosts: d.ExtraHosts, ReadonlyRootfs: d.ReadOnly, ShmSize: d.ShmSize,
		Resources: container.Resources{Memory: s.Memory, NanoCPUs: int64(s.CPUs * 1e9)},
	}
	if d.Init {
		h.Init = &d.Init
	}
	if s.Pids > 0 {
		h.PidsLimit = &s.Pids
	}
	if d.HealthCmd != "" {
		c.Healthcheck = &container.HealthConfig{Test: []string{"CMD-SHELL", d.HealthCmd}, Interval: d.HealthEach}
	}
	for _, set := range []func(dockerspec.Options, *container.Config, *container.HostConfig) error{
		setMounts, setPorts, setRestart, setUlimits, setDevices,
	} {
		if err := set(d, c, h); err != nil {
			return planned{}, err
		}
	}
	for k, v := range d.Labels {
		c.Labels[k] = v
	}
	for k, v := range s.Labels {
		c.Labels[k] = v
	}
	p.options = client.ContainerCreateOptions{Config: c, HostConfig: h, Name: containerName(f, d)}
	for _, b := range h.Binds {
		if name, _, _ := strings.Cut(b, ":"); !strings.HasPrefix(name, "/") {
			p.volumes = append(p.volumes, name)
		}
	}
	return p, nil
}

// containerName gives the name that was asked for, or one made of the session's.
func containerName(f driver.Fence, d dockerspec.Options) string {
	if d.Name != "" {
		return d.Name
	}
	return "diapause-" + string(f.Name.Tenant) + "-" + string(f.Name.Session)
}

func setMounts(d dockerspec.Options, c *container.Config, h *container.HostConfig) error {
	for _, v := range d.Volumes {
		from, at, named := strings.Cut(v, ":")
		switch {
		case !named && strings.HasPrefix(v, "/"):
			c.Volumes[v] = struct{}{}
		case named && from != "" && strings.HasPrefix(at, "/"):
			h.Binds = append(h.Binds, v)
		default:
			return refuse("volume %q: want NAME:/path[:ro], /host/path:/path[:ro], or /path", v)
		}
	}
	for _, t := range d.Tmpfs {
		at, options, _ := strings.Cut(t, ":")
		if !strings.HasPrefix(at, "/") {
			return refuse("tmpfs %q: want /path[:options]", t)
		}
		if h.Tmpfs == nil {
			h.Tmpfs = map[string]string{}
		}
		h.Tmpfs[at] = options
	}
	return nil
}

func setPorts(d dockerspec.Options, c *container.Config, h *container.HostConfig) error {
	for _, p := range d.Publish {
		port, binding, err := parsePort(p)
		if err != nil {
			return err
		}
		c.ExposedPorts[port] = struct{}{}
		if h.PortBindings == nil {
			h.PortBindings = network.PortMap{}
		}
		h.PortBindings[port] = append(h.PortBindings[port], binding)
	}
	return nil
}

// parsePort reads [[ip:]port:]port[/proto]. An IPv6 address is in brackets.
func parsePort(s string) (network.Port, network.PortBinding, error) {
	bad := refuse("publish %q: want [[ip:]port:]port[/proto]", s)
	var b network.PortBinding
	rest := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		rest = s[i+1:]
		host := s[:i]
		if j := strings.LastIndexByte(host, ':'); j >= 0 && !strings.HasSuffix(host, "]") {
			ip, err := netip.ParseAddr(strings.Trim(host[:j], "[]"))
			if err != nil {
				return network.Port{}, b, bad
			}
			b.HostIP, host = ip, host[j+1:]
		}
		if _, err := strconv.ParseUint(host, 10, 16); host != "" && err != nil {
			return network.Port{}, b, bad
		}
		b.HostPort = host
	}
	port, err := network.ParsePort(rest)
	if err != nil || port.Num() == 0 {
		return network.Port{}, b, bad
	}
	return port, b, nil
}

func setRestart(d dockerspec.Options, _ *container.Config, h *container.HostConfig) error {
	name, count, limited := strings.Cut(d.Restart, ":")
	switch name {
	case "", "no", "always", "unless-stopped", "on-failure":
	default:
		return refuse("restart %q: want no, always, unless-stopped or on-failure[:n]", d.Restart)
	}
	h.RestartPolicy.Name = container.RestartPolicyMode(name)
	if !limited {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || name != "on-failure" {
		return refuse("restart %q: want no, always, unless-stopped or on-failure[:n]", d.Restart)
	}
	h.RestartPolicy.MaximumRetryCount = n
	return nil
}

func setUlimits(d dockerspec.Options, _ *container.Config, h *container.HostConfig) error {
	for _, u := range d.Ulimits {
		got, err := units.ParseUlimit(u)
		if err != nil {
			return refuse("ulimit %q: want name=soft[:hard]: %v", u, err)
		}
		h.Ulimits = append(h.Ulimits, got)
	}
	return nil
}

func setDevices(d dockerspec.Options, _ *container.Config, h *container.HostConfig) error {
	for _, v := range d.Devices {
		parts := strings.Split(v, ":")
		m := container.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
		if len(parts) > 1 {
			m.PathInContainer = parts[1]
		}
		if len(parts) > 2 {
			m.CgroupPermissions = parts[2]
		}
		if len(parts) > 3 || !strings.HasPrefix(m.PathOnHost, "/") || !strings.HasPrefix(m.PathInContainer, "/") {
			return refuse("device %q: want /dev/x[:/dev/y[:rwm]]", v)
		}
		h.Devices = append(h.Devices, m)
	}
	return nil
}
