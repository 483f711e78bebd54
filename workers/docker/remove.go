package docker

import (
	"context"
	"fmt"
	"os"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// killPaused kills every process of a paused container before it executes another instruction.
// The engine kills only the first process and thaws the others, and what these do until they end
// is in no image. Errors are ignored: then the others run for that moment.
func (e *engine) killPaused(ctx context.Context, id string) {
	got, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil || got.Container.State == nil || !got.Container.State.Paused {
		return
	}
	for _, pid := range processes(got.Container.State.Pid, got.Container.ID) { // paused processes don't end, so the pids stay theirs
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(groups), got.Container.ID) {
			_ = unix.Kill(pid, unix.SIGKILL) // an error says that it has ended
		}
	}
}

// removeContainer removes a container and its anonymous volumes.
func (e *engine) removeContainer(ctx context.Context, id string) error {
	e.killPaused(ctx, id)
	_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || missing(err) {
		return nil
	}
	if cerrdefs.IsConflict(err) { // the engine is removing it already
		return e.awaitRemoved(ctx, id)
	}
	return e.failed("remove a container", err)
}

// removeVolume removes a volume unless other containers use it.
func (e *engine) removeVolume(ctx context.Context, name string) error {
	_, err := e.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err == nil || missing(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return e.failed("remove volume "+name, err)
}

// removeNetwork removes a network unless other containers are in it.
func (e *engine) removeNetwork(ctx context.Context, name string) error {
	_, err := e.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	if err == nil || missing(err) || inUse(err) {
		return nil
	}
	return e.failed("remove network "+name, err)
}

// inUse reports whether a network can't be removed because containers are in it.
func inUse(err error) bool { return cerrdefs.IsConflict(err) || cerrdefs.IsPermissionDenied(err) }

// removeImage removes an image that was made for a session, unless others use it.
func (e *engine) removeImage(ctx context.Context, ref string) error {
	if ref == "" {
		return nil
	}
	_, err := e.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if err == nil || missing(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return e.failed("remove image "+ref, err)
}
