package docker

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// noteAnonymous notes the volumes without a name that a container was made with. They go with
// it, but not if somebody else removes it, and nothing tells then whose they were.
func (b *builder) noteAnonymous(ctx context.Context, n *note) error {
	if n.Adopted {
		return nil
	}
	got, err := b.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("look at the container that it made", err)
	}
	n.Anonymous = append(n.Anonymous, anonymousOf(&got.Container)...)
	return nil
}

// anonymousOf gives the volumes that a container has for itself, and that nobody named.
func anonymousOf(c *container.InspectResponse) (names []string) {
	if len(c.HostConfig.VolumesFrom) > 0 { // they may be another's
		return nil
	}
	for _, p := range c.Mounts {
		if e := (&mounted{Name: p.Name}); p.Type == mount.TypeVolume && anonymous(e, c) {
			names = append(names, p.Name)
		}
	}
	return names
}

// removeAnonymous removes such volumes of containers that aren't there any more.
func (r *remover) removeAnonymous(ctx context.Context, n note) error {
	if n.Kept {
		return nil
	}
	for _, v := range n.Anonymous {
		if err := r.engine.removeVolume(ctx, v); err != nil {
			return err
		}
	}
	return nil
}
