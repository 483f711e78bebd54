package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// executable makes sure that a container's command exists before the start is recorded. The engine
// checks that only when it starts the container.
func (b *builder) executable(ctx context.Context, id string) error {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("inspect the container that it created", err)
	}
	c := &got.Container
	if c.Path == "" {
		return hinted(refuse("image %s has no command of its own", c.Config.Image), "give one")
	}
	if strings.Contains(c.Path, "/") {
		p := c.Path
		if !path.IsAbs(p) {
			p = path.Join("/", c.Config.WorkingDir, p)
		}
		return b.isProgram(ctx, c, p)
	}
	for _, dir := range searchPath(c.Config.Env) {
		if b.isProgram(ctx, c, path.Join(dir, c.Path)) == nil {
			return nil
		}
	}
	return refuse("command not found in image %s: %s", c.Config.Image, c.Path)
}

// searchPath lists the directories of a container's PATH.
func searchPath(env []string) []string {
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			return strings.Split(p, ":")
		}
	}
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// isProgram makes sure that a path in a container is an executable file. Files in mounts can't be
// seen before the start and pass.
func (b *builder) isProgram(ctx context.Context, c *container.InspectResponse, p string) error {
	const links = 40
	for range links {
		for _, m := range c.Mounts {
			if inside(p, m.Destination) {
				return nil
			}
		}
		got, err := b.engine.ContainerStatPath(ctx, c.ID, client.ContainerStatPathOptions{Path: p})
		if missing(err) {
			return refuse("command not found in image %s: %s", c.Config.Image, p)
		}
		if err != nil {
			return b.engine.failed("look for the command "+p, err)
		}
		switch mode := got.Stat.Mode; {
		case mode&os.ModeSymlink != 0:
			p = got.Stat.LinkTarget
		case mode.IsDir():
			return refuse("%s in image %s is a directory", p, c.Config.Image)
		case mode.Perm()&0o111 == 0:
			return refuse("%s in image %s is not executable", p, c.Config.Image)
		default:
			return nil
		}
	}
	return refuse("command not found in image %s: %s", c.Config.Image, p)
}

// portsFree makes sure that the ports that a container publishes are free.
func (b *builder) portsFree(ctx context.Context, id string) error {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("inspect the container that it created", err)
	}
	for port, bindings := range got.Container.HostConfig.PortBindings {
		for _, b := range bindings {
			if err := portFree(string(port.Proto()), b.HostIP.String(), b.HostPort); err != nil {
				return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("port %s of this host, for %s of %s, is in use", b.HostPort, port, got.Container.Name[1:]), Err: err}
			}
		}
	}
	return nil
}

func portFree(proto, ip, port string) error {
	if port == "" || port == "0" || strings.Contains(port, "-") {
		return nil // the engine chooses
	}
	if ip == "invalid IP" { // the zero address: all addresses
		ip = ""
	}
	at := net.JoinHostPort(ip, port)
	switch proto {
	case "tcp":
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		return l.Close()
	case "udp":
		l, err := net.ListenPacket("udp", at)
		if err != nil {
			return err
		}
		return l.Close()
	}
	return nil
}

// startable makes sure, as far as that is known before, that a container can be started.
func (b *builder) startable(ctx context.Context, n note) error {
	if n.NotRunning != nil { // it won't be started
		return nil
	}
	if err := b.executable(ctx, n.Container); err != nil {
		return err
	}
	return b.portsFree(ctx, n.Container)
}
