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

// killPaused has every process of a paused container end without another instruction. The
// engine kills the first one alone and lets all go on, and what they do until they are gone
// is in no image. If it can't be done, that moment is all there is to it.
func (e *engine) killPaused(ctx context.Context, id string) {
	got, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil || got.Container.State == nil || !got.Container.State.Paused {
		return
	}
	for _, pid := range processes(got.Container.State.Pid) { // paused, none of them goes and leaves its number to another
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(groups), got.Container.ID) {
			_ = unix.Kill(pid, unix.SIGKILL) // it has ended, then
		}
	}
}

// removeContainer removes a container with the volumes that have no name.
func (e *engine) removeContainer(ctx context.Context, id string) error {
	e.killPaused(ctx, id)
	_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || missing(err) {
		return nil
	}
	if cerrdefs.IsConflict(err) { // being removed already
		return e.awaitRemoved(ctx, id)
	}
	return e.failed("remove a container", err)
}

// removeVolume removes a volume unless somebody else uses it by now.
func (e *engine) removeVolume(ctx context.Context, name string) error {
	_, err := e.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err == nil || missing(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return e.failed("remove volume "+name, err)
}

// removeNetwork removes a network unless somebody else is in it by now.
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
