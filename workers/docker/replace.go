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

// A restore replaces what exists in three steps, so that all of it comes back if anything fails
// before the new container has started: it backs up what volumes hold (mounts.go), gives the name
// of the held container to the new one (takePlace), and removes both when the new one has started
// (dropReplaced). unmake goes back.

// takePlace gives the name of the held container to the new one.
func (r *restoring) takePlace(ctx context.Context, n *note) error {
	if r.old == "" {
		return nil
	}
	got, err := r.engine.ContainerInspect(ctx, r.old, client.ContainerInspectOptions{})
	if err != nil && !missing(err) {
		return r.engine.failed("inspect the container to be replaced", err)
	}
	if err == nil && got.Container.State.Running { // since it was looked at before
		return startedMeanwhile(*n, got.Container.Name[1:])
	}
	if err == nil && got.Container.Name == "/"+r.meta.Name {
		n.Moved = r.meta.Name
		if err := r.notes.write(*n); err != nil {
			return err
		}
		away := fmt.Sprintf("%s.diapause-%d-before", r.meta.Name, r.f.Epoch)
		if _, err := r.engine.ContainerRename(ctx, r.old, client.ContainerRenameOptions{NewName: away}); err != nil {
			return r.engine.failed("rename the container to be replaced", err)
		}
	}
	if _, err := r.engine.ContainerRename(ctx, n.Container, client.ContainerRenameOptions{NewName: r.meta.Name}); err != nil {
		return r.builder.nameTaken(*n, r.meta.Name, r.engine.failed("rename the new container to "+r.meta.Name, err))
	}
	return r.failpoints.At(ctx, failpoint.DockerSwapped)
}

// moveBack gives the held container its name back, unless another container has it by now.
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
		r.log.Warn("rename a held container back: another one has its name", "session", n.Name.String(), "name", n.Moved, "called", strings.TrimPrefix(got.Container.Name, "/"))
		return nil
	}
	if err != nil {
		return r.engine.failed("rename the held container back to "+n.Moved, err)
	}
	return nil
}

// dropReplaced removes what a restore replaced, after its container has started.
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
		return fmt.Errorf("remove the backups of session %s: %w", n.Name, err)
	}
	n.Old, n.Moved, n.Restart, n.Backups = "", "", nil, nil
	return r.notes.write(*n)
}
