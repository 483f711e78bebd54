package docker

import (
	"context"
	"log/slog"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// remover removes what was made for sessions, and brings back what a restore replaced.
type remover struct {
	engine     *engine
	notes      *notes
	host       string // the instance
	log        *slog.Logger
	failpoints *failpoint.Set
}

// labelsOf gives the filter for what the driver made for a session.
func (r *remover) labelsOf(n note) client.Filters {
	return client.Filters{}.Add("label", labelHost+"="+r.host, labelUID+"="+string(n.UID))
}

// leave notes what is left of a session, and removes the image that was made for it.
func (r *remover) leave(ctx context.Context, was, next note) error {
	if err := r.notes.write(next); err != nil || next.Kept && next.Image == was.Image {
		return err
	}
	return r.engine.removeImage(ctx, was.Image)
}

// unmake removes all that was made for a session on this host. The held container that was to be
// replaced stays, and so do the volumes and networks of a container that others removed.
func (r *remover) unmake(ctx context.Context, n note) error {
	if n.Phase == here || n.Phase == frozen { // a missing container must not look as if others had removed it
		if !n.Ending {
			n.Phase = making // counts as if nothing had run
		}
		if err := r.notes.write(n); err != nil {
			return err
		}
	}
	if n.Container != "" && !r.foreign(ctx, n) {
		if err := r.engine.removeContainer(ctx, n.Container); err != nil {
			return err
		}
	}
	if err := r.failpoints.At(ctx, failpoint.DockerRemoved); err != nil {
		return err
	}
	if err := r.undoBackups(&n); err != nil {
		return err
	}
	if err := r.removeLabelled(ctx, n); err != nil {
		return err
	}
	if err := r.removeNoted(ctx, n); err != nil {
		return err
	}
	if err := r.removeAnonymous(ctx, n); err != nil {
		return err
	}
	if err := r.moveBack(ctx, n); err != nil {
		return err
	}
	next := note{UID: n.UID, Name: n.Name, Epoch: n.Epoch}
	if n.Old != "" {
		if _, err := r.engine.ContainerInspect(ctx, n.Old, client.ContainerInspectOptions{}); err == nil {
			next.Phase, next.Container, next.Adopted, next.Remove, next.Restart, next.Image = held, n.Old, n.Adopted, n.Remove, n.Restart, n.Image
		} else if !missing(err) {
			return r.engine.failed("inspect the held container of session "+n.Name.String(), err)
		}
	}
	if n.Kept {
		next = next.keeping(n)
	}
	return r.leave(ctx, n, next)
}

// foreign reports whether a container that was to be adopted is still as it was before: the
// adoption isn't recorded, and the driver didn't create it.
func (r *remover) foreign(ctx context.Context, n note) bool {
	if !n.Adopted || n.Phase != making {
		return false
	}
	got, err := r.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	return err != nil || got.Container.Config.Labels[labelFor] != string(n.UID)
}

// removeNoted removes what a restore of an adopted container created before it was cut off.
func (r *remover) removeNoted(ctx context.Context, n note) error {
	if !n.Adopted {
		return nil
	}
	left, err := r.engine.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelFor+"="+string(n.UID)).Add("status", "created"),
	})
	if err != nil {
		return r.engine.failed("list what is left of session "+n.Name.String(), err)
	}
	for _, c := range left.Items {
		if c.ID == n.Old {
			continue
		}
		if err := r.engine.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, v := range n.Volumes {
		if err := r.engine.removeVolume(ctx, v); err != nil {
			return err
		}
	}
	for _, w := range n.Networks {
		if err := r.engine.removeNetwork(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// removeLabelled removes what the driver made for a session by its labels: containers that it
// hadn't noted yet, volumes and networks. What other containers use stays.
func (r *remover) removeLabelled(ctx context.Context, n note) error {
	filter := r.labelsOf(n)
	all, err := r.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return r.engine.failed("list what is left of session "+n.Name.String(), err)
	}
	for _, c := range all.Items {
		if c.ID == n.Old || r.inherits(ctx, c, n) {
			continue
		}
		if err := r.engine.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	if n.Kept {
		return nil
	}
	volumes, err := r.engine.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return r.engine.failed("list what is left of session "+n.Name.String(), err)
	}
	for _, v := range volumes.Items {
		if err := r.engine.removeVolume(ctx, v.Name); err != nil {
			return err
		}
	}
	networks, err := r.engine.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return r.engine.failed("list what is left of session "+n.Name.String(), err)
	}
	for _, w := range networks.Items {
		if n.Old != "" {
			break // the held container is in them
		}
		if err := r.engine.removeNetwork(ctx, w.ID); err != nil {
			return err
		}
	}
	return nil
}

// inherits reports whether a container has a session's labels from its image, which was committed
// from the session's container: then the container belongs to a user. If the image can't be
// inspected, it counts as a user's.
func (r *remover) inherits(ctx context.Context, c container.Summary, n note) bool {
	got, err := r.engine.ImageInspect(ctx, c.ImageID)
	if err != nil || got.Config == nil {
		return err != nil && !missing(err)
	}
	return got.Config.Labels[labelHost] == r.host && got.Config.Labels[labelUID] == string(n.UID)
}

// sweep removes what a crash left without a note.
func (r *remover) sweep(ctx context.Context) error {
	filter := client.Filters{}.Add("label", labelHost+"="+r.host)
	all, err := r.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return r.engine.failed("list what a crash left", err)
	}
	uids := map[string]bool{}
	for _, c := range all.Items {
		uids[c.Labels[labelUID]] = true
	}
	volumes, err := r.engine.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return r.engine.failed("list what a crash left", err)
	}
	for _, v := range volumes.Items {
		uids[v.Labels[labelUID]] = true
	}
	for _, uid := range sortedNames(uids) {
		n, err := r.notes.read(schemas.UID(uid))
		if err != nil {
			return err
		}
		if n.Phase == gone {
			if err := r.removeLabelled(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}
