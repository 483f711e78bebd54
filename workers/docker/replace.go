package docker

import (
	"context"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/docker/backup"
)

// A restore takes the place of what is there in three steps, so that it is all there again
// whatever happens before the new container has begun: what is in volumes is set aside
// (aside.go), the held container gives its name away (takePlace), and when the new one has
// begun both are removed (settle). unmake goes back.

// takePlace gives the container the name of the one that was held.
func (r *restoring) takePlace(ctx context.Context, n *note) error {
	if r.old == "" {
		return nil
	}
	got, err := r.engine.ContainerInspect(ctx, r.old, client.ContainerInspectOptions{})
	if err != nil && !missing(err) {
		return r.engine.failed("look at the container that is replaced", err)
	}
	if err == nil && got.Container.Name == "/"+r.meta.Name {
		n.Moved = r.meta.Name
		if err := r.notes.write(*n); err != nil {
			return err
		}
		away := fmt.Sprintf("%s.diapause-%d-before", r.meta.Name, r.f.Epoch)
		if _, err := r.engine.ContainerRename(ctx, r.old, client.ContainerRenameOptions{NewName: away}); err != nil {
			return r.engine.failed("give the name of the container that is replaced to another", err)
		}
	}
	if _, err := r.engine.ContainerRename(ctx, n.Container, client.ContainerRenameOptions{NewName: r.meta.Name}); err != nil {
		return r.engine.failed("call the container "+r.meta.Name, err)
	}
	return r.failpoints.At(ctx, failpoint.DockerSwapped)
}

// moveBack gives the held container its name again, unless somebody else has it by now.
func (r *remover) moveBack(ctx context.Context, n note) error {
	if n.Old == "" || n.Moved == "" {
		return nil
	}
	got, err := r.engine.ContainerInspect(ctx, n.Old, client.ContainerInspectOptions{})
	if missing(err) || err == nil && got.Container.Name == "/"+n.Moved {
		return nil
	}
	if err == nil {
		_, err = r.engine.ContainerRename(ctx, n.Old, client.ContainerRenameOptions{NewName: n.Moved})
	}
	if cerrdefs.IsConflict(err) {
		r.log.Warn("a held container keeps the name that it was given for a restore: another one has its own", "session", n.Name.String(), "name", n.Moved, "called", strings.TrimPrefix(got.Container.Name, "/"))
		return nil
	}
	if err != nil {
		return r.engine.failed("call the held container "+n.Moved+" again", err)
	}
	return nil
}

// dropReplaced removes what a container that has begun was put in the place of.
func (r *remover) dropReplaced(ctx context.Context, n *note) error {
	if n.Old == "" && len(n.Backups) == 0 {
		return nil
	}
	if n.Old != "" {
		if err := r.engine.removeContainer(ctx, n.Old); err != nil {
			return err
		}
	}
	if err := backup.Drop(n.Backups); err != nil {
		return fmt.Errorf("remove what was in the volumes of session %s before: %w", n.Name, err)
	}
	n.Old, n.Moved, n.Restart, n.Backups = "", "", nil, nil
	return r.notes.write(*n)
}
