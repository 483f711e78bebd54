package docker

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// noteAnonymous notes the anonymous volumes that a container was made with. The driver removes
// them with the container; if someone else removes that, only the note says whose they were.
func (b *builder) noteAnonymous(ctx context.Context, n *note) error {
	if n.Adopted {
		return nil
	}
	got, err := b.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return b.engine.failed("inspect the container that it created", err)
	}
	n.Anonymous = append(n.Anonymous, anonymousOf(&got.Container)...)
	return nil
}

// anonymousOf gives the anonymous volumes of a container that it shares with no other.
func anonymousOf(c *container.InspectResponse) (names []string) {
	if len(c.HostConfig.VolumesFrom) > 0 { // they may belong to another one
		return nil
	}
	for _, p := range c.Mounts {
		if e := (&mounted{Name: p.Name}); p.Type == mount.TypeVolume && anonymous(e, c) {
			names = append(names, p.Name)
		}
	}
	return names
}

// removeAnonymous removes the noted volumes of containers that no longer exist.
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
