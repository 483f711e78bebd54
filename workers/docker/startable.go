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

// executable makes sure that a container's command is there before anything is recorded:
// the engine itself only finds that out when it starts it.
func (b *builder) executable(ctx context.Context, id string) error {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("look at the container that it made", err)
	}
	c := &got.Container
	if c.Path == "" {
		return refuse("image %s has no command of its own: give one", c.Config.Image)
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

// searchPath is where a container looks for its command.
func searchPath(env []string) []string {
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			return strings.Split(p, ":")
		}
	}
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// isProgram looks at a file in a container. What a mount brings can't be seen before the
// start, and is taken for a program.
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

// portsFree makes sure that nobody listens where a container is to.
func (b *builder) portsFree(ctx context.Context, id string) error {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("look at the container that it made", err)
	}
	for port, bindings := range got.Container.HostConfig.PortBindings {
		for _, b := range bindings {
			if err := portFree(string(port.Proto()), b.HostIP.String(), b.HostPort); err != nil {
				return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("port %s of this host, for %s of container %s, is in use", b.HostPort, port, got.Container.Name[1:]), Err: err}
			}
		}
	}
	return nil
}

func portFree(proto, ip, port string) error {
	if port == "" || port == "0" || strings.Contains(port, "-") {
		return nil // the engine chooses
	}
	if ip == "invalid IP" { // of the zero address: every one
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

// startable looks for what would keep a container that is all made from being started.
func (b *builder) startable(ctx context.Context, n note) error {
	if n.NotRunning != nil { // it isn't to be
		return nil
	}
	if err := b.executable(ctx, n.Container); err != nil {
		return err
	}
	return b.portsFree(ctx, n.Container)
}
