package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Stop implements driver.Driver. A container that was there before the session is held
// stopped, as what it is on this host, unless it was to be removed.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error {
	n, err := d.notes.pass(f)
	if err != nil {
		return err
	}
	if n.Phase == frozen {
		if err := d.unstarted(ctx, n); err != nil {
			return err
		}
	}
	switch n.Phase {
	case gone, held:
		return nil
	case here, frozen:
		return d.end(ctx, n)
	}
	return d.unmake(ctx, n)
}

// end ends a session that has run. What it has is kept until it is removed or begun anew if
// its command ended without us, or somebody else removed the container: as the engine says,
// and not as long as that says nothing.
func (d *Driver) end(ctx context.Context, n note) error {
	i, c, err := d.instance(ctx, n)
	ran := err == nil
	if !ran && !errors.Is(err, driver.ErrNotHere) {
		return err
	}
	if ran {
		if err := d.settle(ctx, &n); err != nil {
			return err
		}
		if c == nil && i.Lost {
			return d.outlive(ctx, n)
		}
		n.Kept = n.Kept && c == nil
	} // else what it was to run on may be kept
	alone := c != nil && n.Phase == here && i.State == driver.Exited && !c.HostConfig.AutoRemove && !n.Ending
	if alone || c != nil && n.Adopted && !n.Remove && n.Old == "" && len(n.Asides) == 0 {
		return d.hold(ctx, n)
	}
	n.Ending = ran
	return d.unmake(ctx, n)
}

// outlive notes that somebody else has removed a session's container. What that had and the
// engine kept stays: no image may have it.
func (d *Driver) outlive(ctx context.Context, n note) error {
	wait, done := context.WithTimeout(ctx, undoTime)
	defer done()
	if err := d.removed(wait, n.Container); err != nil {
		if ctx.Err() != nil {
			return err
		}
		d.options.Log.Warn("a container that somebody else removes is still there", "session", n.Name.String(), "container", n.Container, "err", err)
	}
	next := note{UID: n.UID, Name: n.Name, Epoch: n.Epoch}
	if !n.Adopted {
		next = next.keeping(n)
	}
	return d.leave(ctx, n, next)
}

// keeping is a note of what outlived a container. An image of its own file system goes with it.
func (n note) keeping(was note) note {
	if n.Phase, n.Kept = held, true; !strings.HasPrefix(was.Image, imagePrefix) {
		n.Image = was.Image
	}
	n.Nameless = was.Nameless
	return n
}

// leave notes what there is of a session now, and removes the image that it had alone.
func (d *Driver) leave(ctx context.Context, was, next note) error {
	if err := d.notes.write(next); err != nil || next.Kept && next.Image == was.Image {
		return err
	}
	return d.removeImage(ctx, was.Image)
}

// removed waits until the engine has removed a container.
func (d *Driver) removed(ctx context.Context, id string) error {
	return d.await(ctx, id, container.WaitConditionRemoved, "remove a container")
}

// stopped waits until a container doesn't run any more.
func (d *Driver) stopped(ctx context.Context, id string) error {
	return d.await(ctx, id, container.WaitConditionNotRunning, "wait for the end of a container")
}

// await waits until a container is as asked, or gone.
func (d *Driver) await(ctx context.Context, id string, is container.WaitCondition, what string) error {
	w := d.engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: is})
	select {
	case <-w.Result:
		return nil
	case err := <-w.Error:
		if missing(err) {
			return nil
		}
		return d.asked(what, err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold ends what runs in a container and keeps it, so that nothing starts it but the session.
func (d *Driver) hold(ctx context.Context, n note) error {
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return d.outlive(ctx, n)
	}
	if err != nil {
		return d.asked("look at the container of session "+n.Name.String(), err)
	}
	if p := got.Container.HostConfig.RestartPolicy; n.Restart == nil {
		n.Restart = &restart{string(p.Name), p.MaximumRetryCount}
		if err := d.notes.write(n); err != nil {
			return err
		}
	}
	if err := d.setRestart(ctx, n.Container, restart{Name: "no"}); err != nil {
		return err
	}
	if err := d.options.Failpoints.At(ctx, failpoint.DockerHolding); err != nil {
		return err
	}
	d.killPaused(ctx, n.Container)
	_, err = d.engine.ContainerKill(ctx, n.Container, client.ContainerKillOptions{Signal: "SIGKILL"})
	if err != nil && !cerrdefs.IsConflict(err) && !missing(err) { // a conflict: it doesn't run
		return d.asked("stop the container of session "+n.Name.String(), err)
	}
	if err := d.stopped(ctx, n.Container); err != nil {
		return err
	}
	n.Phase, n.Paused, n.Still = held, false, nil
	return d.notes.write(n)
}

func (d *Driver) setRestart(ctx context.Context, id string, r restart) error {
	p := container.RestartPolicy{Name: container.RestartPolicyMode(r.Name), MaximumRetryCount: r.Tries}
	if _, err := d.engine.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{RestartPolicy: &p}); err != nil && !missing(err) {
		return d.asked("set when a container is started again", err)
	}
	return nil
}

// Release implements driver.Releaser: a held container that was adopted is nobody's any
// more, and gets its restart policy back. It is not started. One of our own is removed.
func (d *Driver) Release(ctx context.Context, f driver.Fence) error {
	n, err := d.notes.pass(f)
	if err != nil || n.Phase != held {
		return err
	}
	if !n.Adopted {
		n.Kept = false
		return d.unmake(ctx, n)
	}
	if n.Restart != nil {
		if err := d.setRestart(ctx, n.Container, *n.Restart); err != nil {
			return err
		}
	}
	return d.notes.write(note{UID: n.UID, Name: n.Name, Epoch: n.Epoch})
}

// Kept implements driver.Keeper.
func (d *Driver) Kept() (out []driver.Kept, err error) {
	all, err := d.notes.all()
	for _, n := range all {
		if n.Phase == held {
			out = append(out, driver.Kept{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Foreign: n.Adopted})
		}
	}
	return out, err
}

// unmake removes all that was made for a session on this host, and leaves the held
// container that was to be replaced, and what outlived one that was removed by others.
func (d *Driver) unmake(ctx context.Context, n note) error {
	if n.Phase == here || n.Phase == frozen { // who finds no container then is not to think that others removed it
		if !n.Ending {
			n.Phase = making // which is to say that nothing has run
		}
		if err := d.notes.write(n); err != nil {
			return err
		}
	}
	if n.Container != "" && !d.foreign(ctx, n) {
		if err := d.removeContainer(ctx, n.Container); err != nil {
			return err
		}
	}
	if err := d.options.Failpoints.At(ctx, failpoint.DockerRemoved); err != nil {
		return err
	}
	if err := d.putBack(&n); err != nil {
		return err
	}
	if err := d.removeLabelled(ctx, n); err != nil {
		return err
	}
	if err := d.removeNoted(ctx, n); err != nil {
		return err
	}
	if err := d.removeNameless(ctx, n); err != nil {
		return err
	}
	if err := d.moveBack(ctx, n); err != nil {
		return err
	}
	next := note{UID: n.UID, Name: n.Name, Epoch: n.Epoch}
	if n.Old != "" {
		if _, err := d.engine.ContainerInspect(ctx, n.Old, client.ContainerInspectOptions{}); err == nil {
			next.Phase, next.Container, next.Adopted, next.Remove, next.Restart, next.Image = held, n.Old, n.Adopted, n.Remove, n.Restart, n.Image
		} else if !missing(err) {
			return d.asked("look at the held container of session "+n.Name.String(), err)
		}
	}
	if n.Kept {
		next = next.keeping(n)
	}
	return d.leave(ctx, n, next)
}

// foreign reports whether a container that a session was to take over is still as it was
// before: nothing has run in it for the session, and the driver didn't make it.
func (d *Driver) foreign(ctx context.Context, n note) bool {
	if !n.Adopted || n.Phase != making {
		return false
	}
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	return err != nil || got.Container.Config.Labels[labelFor] != string(n.UID)
}

// removeNoted removes what a restore of an adopted container had made when it was cut off.
func (d *Driver) removeNoted(ctx context.Context, n note) error {
	if !n.Adopted {
		return nil
	}
	left, err := d.engine.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelFor+"="+string(n.UID)).Add("status", "created"),
	})
	if err != nil {
		return d.asked("look for what is left of session "+n.Name.String(), err)
	}
	for _, c := range left.Items {
		if c.ID == n.Old {
			continue
		}
		if err := d.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, v := range n.Volumes {
		if err := d.removeVolume(ctx, v); err != nil {
			return err
		}
	}
	for _, w := range n.Networks {
		if err := d.removeNetwork(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// killPaused has every process of a paused container end without another instruction. The
// engine kills the first one alone and lets all go on, and what they do until they are gone
// is in no image. If it can't be done, that moment is all there is to it.
func (d *Driver) killPaused(ctx context.Context, id string) {
	got, err := d.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
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
func (d *Driver) removeContainer(ctx context.Context, id string) error {
	d.killPaused(ctx, id)
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || missing(err) {
		return nil
	}
	if cerrdefs.IsConflict(err) { // being removed already
		return d.removed(ctx, id)
	}
	return d.asked("remove a container", err)
}

// removeLabelled removes what the driver made for a session: containers that it had no
// time to note, volumes and networks. What others use by now stays.
func (d *Driver) removeLabelled(ctx context.Context, n note) error {
	filter := d.labelsOf(n)
	all, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return d.asked("look for what is left of session "+n.Name.String(), err)
	}
	for _, c := range all.Items {
		if c.ID == n.Old || d.inherits(ctx, c, n) {
			continue
		}
		if err := d.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	if n.Kept {
		return nil
	}
	volumes, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return d.asked("look for what is left of session "+n.Name.String(), err)
	}
	for _, v := range volumes.Items {
		if err := d.removeVolume(ctx, v.Name); err != nil {
			return err
		}
	}
	networks, err := d.engine.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return d.asked("look for what is left of session "+n.Name.String(), err)
	}
	for _, w := range networks.Items {
		if n.Old != "" {
			break // it is in them
		}
		if err := d.removeNetwork(ctx, w.ID); err != nil {
			return err
		}
	}
	return nil
}

// inherits reports whether a container has a session's labels from its image: somebody
// made that of the session's container, and the container is his. What can't be told
// counts as his.
func (d *Driver) inherits(ctx context.Context, c container.Summary, n note) bool {
	got, err := d.engine.ImageInspect(ctx, c.ImageID)
	if err != nil || got.Config == nil {
		return err != nil && !missing(err)
	}
	return got.Config.Labels[labelHost] == d.options.Instance && got.Config.Labels[labelUID] == string(n.UID)
}

// removeVolume removes a volume unless somebody else uses it by now.
func (d *Driver) removeVolume(ctx context.Context, name string) error {
	_, err := d.engine.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err == nil || missing(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return d.asked("remove volume "+name, err)
}

// removeNetwork removes a network unless somebody else is in it by now.
func (d *Driver) removeNetwork(ctx context.Context, name string) error {
	_, err := d.engine.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	if err == nil || missing(err) || inUse(err) {
		return nil
	}
	return d.asked("remove network "+name, err)
}

// inUse reports whether a network can't be removed because containers are in it.
func inUse(err error) bool { return cerrdefs.IsConflict(err) || cerrdefs.IsPermissionDenied(err) }

// removeImage removes an image that was made for a session, unless others use it.
func (d *Driver) removeImage(ctx context.Context, ref string) error {
	if ref == "" {
		return nil
	}
	_, err := d.engine.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if err == nil || missing(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return d.asked("remove image "+ref, err)
}

// sweep removes what a crash has left that no note tells of.
func (d *Driver) sweep(ctx context.Context) error {
	filter := client.Filters{}.Add("label", labelHost+"="+d.options.Instance)
	all, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return d.asked("look for what a crash has left", err)
	}
	uids := map[string]bool{}
	for _, c := range all.Items {
		uids[c.Labels[labelUID]] = true
	}
	volumes, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return d.asked("look for what a crash has left", err)
	}
	for _, v := range volumes.Items {
		uids[v.Labels[labelUID]] = true
	}
	for _, uid := range sortedNames(uids) {
		n, err := d.notes.read(schemas.UID(uid))
		if err != nil {
			return err
		}
		if n.Phase == gone {
			if err := d.removeLabelled(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// hasFiles reports whether there is anything in a directory, which needn't be there.
func hasFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
