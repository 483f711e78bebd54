package docker

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/backup"
	"github.com/diapause/diapause/workers/driver"
)

// fillMounts puts the files of the image into the volumes and into empty bind mounts. What was
// in them comes back if the container isn't started.
func (r *restoring) fillMounts(ctx context.Context, n *note, c *container.InspectResponse, kept map[string]bool) error {
	at := map[string]container.MountPoint{}
	for _, p := range c.Mounts {
		at[p.Destination] = p
	}
	filled := map[string]bool{} // a volume may be mounted twice
	for _, m := range r.meta.Mounts {
		p, ok := at[m.At]
		if !ok && m.Part != "" {
			return fmt.Errorf("the engine mounts nothing at %s of container %s", m.At, r.meta.Name)
		}
		if m.Part == "" || kept[p.Name] || filled[p.Source] {
			continue
		}
		filled[p.Source] = true
		if err := r.fillMount(ctx, n, m, p); err != nil {
			return r.engine.writeFailed(fmt.Sprintf("fill what is mounted at %s of container %s", m.At, r.meta.Name), err)
		}
	}
	return nil
}

// fillMount fills one volume or bind mount.
func (r *restoring) fillMount(ctx context.Context, n *note, m mounted, p container.MountPoint) error {
	if m.Type != mount.TypeVolume {
		return r.fillBind(ctx, n, m, p.Source)
	}
	got, err := r.engine.VolumeInspect(ctx, p.Name, client.VolumeInspectOptions{})
	if err != nil {
		return r.engine.failed("inspect volume "+p.Name, err)
	}
	dir := got.Volume.Mountpoint
	if !r.fresh[p.Name] && !m.Anonymous {
		if err := r.backUp(ctx, n, dir); err != nil {
			return err
		}
		if err := r.failpoints.At(ctx, failpoint.DockerAside); err != nil {
			return err
		}
		return extractDir(ctx, r.source, m.Part, dir, !r.shared[p.Name])
	}
	return fillDir(ctx, r.source, m.Part, dir, true) // it was created for this container
}

// fillBind fills a directory of this host unless it holds files.
func (r *restoring) fillBind(ctx context.Context, n *note, m mounted, dir string) error {
	if r.boot == schemas.BootTrial { // the directory is the session's own, too
		return nil
	}
	full, err := hasFiles(dir)
	if err != nil {
		return err
	}
	if full {
		r.log.Warn("leave a bind mount as it is: it holds files on this host", "session", r.f.Name.String(), "at", m.At, "source", dir)
		return nil
	}
	b, err := backup.PlanEmpty(dir, topOf(r.source, m.Part))
	if err != nil {
		return err
	}
	n.Backups = append(n.Backups, b)
	if err := r.notes.write(*n); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	return extractDir(ctx, r.source, m.Part, dir, false)
}

// topOf lists the names in the root of a part of an image.
func topOf(source driver.Source, part string) (names []string) {
	for _, e := range source.Entries() {
		if name, ok := strings.CutPrefix(e.Name, part+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// backUp moves what is in a directory away, within its file system.
func (r *restoring) backUp(ctx context.Context, n *note, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := backup.Plan(dir, fmt.Sprintf("diapause-%s-%d", n.UID, n.Epoch))
	if err != nil {
		return err
	}
	n.Backups = append(n.Backups, b)
	if err := r.notes.write(*n); err != nil { // before anything is moved
		return err
	}
	if err := n.Backups[len(n.Backups)-1].Move(); err != nil {
		return err
	}
	return r.notes.write(*n)
}

// undoBackups brings back what directories held before a restore that failed. It may be cut
// off and repeated.
func (r *remover) undoBackups(n *note) error {
	for len(n.Backups) > 0 {
		last := len(n.Backups) - 1
		if err := n.Backups[last].Undo(func() error { return r.notes.write(*n) }); err != nil {
			return fmt.Errorf("undo the restore of session %s in %s: %w", n.Name, n.Backups[last].Dir, err)
		}
		n.Backups = n.Backups[:last]
		if err := r.notes.write(*n); err != nil {
			return err
		}
	}
	return nil
}
