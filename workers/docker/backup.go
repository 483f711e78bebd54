package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// aside is what was in a directory before a restore filled it.
type aside struct {
	Dir   string      `json:"dir"`
	At    string      `json:"at,omitempty"`    // where its files are; "" if it had none
	Looks image.Entry `json:"looks"`           // of the directory itself
	Ours  bool        `json:"ours,omitempty"`  // its files are all there; what is in the directory is the restore's
	Names []string    `json:"names,omitempty"` // what alone the restore puts in, if others may put in something as well
	Made  bool        `json:"made,omitempty"`  // there was no directory
}

// fillMounts puts the files of the image into the volumes, and the bind mounts that are empty
// here. What was in them is there again if the container doesn't begin.
func (r *restoring) fillMounts(ctx context.Context, n *note, c *container.InspectResponse, kept map[string]bool) error {
	at := map[string]container.MountPoint{}
	for _, p := range c.Mounts {
		at[p.Destination] = p
	}
	filled := map[string]bool{} // one may be mounted twice
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

// fillMount fills a volume, or a bind mount that is empty here.
func (r *restoring) fillMount(ctx context.Context, n *note, m mounted, p container.MountPoint) error {
	if m.Type != mount.TypeVolume {
		return r.fillBind(ctx, n, m, p.Source)
	}
	got, err := r.engine.VolumeInspect(ctx, p.Name, client.VolumeInspectOptions{})
	if err != nil {
		return r.engine.failed("look at volume "+p.Name, err)
	}
	dir := got.Volume.Mountpoint
	if !r.fresh[p.Name] && !m.Anonymous {
		if err := r.setAside(ctx, n, dir); err != nil {
			return err
		}
		if err := r.failpoints.At(ctx, failpoint.DockerAside); err != nil {
			return err
		}
		return extractDir(ctx, r.source, m.Part, dir, !r.shared[p.Name])
	}
	return fillDir(ctx, r.source, m.Part, dir, true) // it was made for this
}

// fillBind fills a directory of this host that is empty, or isn't there.
func (r *restoring) fillBind(ctx context.Context, n *note, m mounted, dir string) error {
	if r.boot == schemas.BootTrial { // it is the session's own, too
		return nil
	}
	full, err := hasFiles(dir)
	if err != nil {
		return err
	}
	if full {
		r.log.Warn("a bind mount keeps what it has on this host", "session", r.f.Name.String(), "at", m.At, "source", dir)
		return nil
	}
	a := aside{Dir: dir, Ours: true, Names: topOf(r.source, m.Part)}
	there, err := exists(dir)
	if err != nil {
		return err
	}
	if a.Made = !there; there {
		if a.Looks, err = looks(dir); err != nil {
			return err
		}
	}
	n.Asides = append(n.Asides, a)
	if err := r.notes.write(*n); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return extractDir(ctx, r.source, m.Part, dir, false)
}

// topOf names what of a part of an image is in its root.
func topOf(source driver.Source, part string) (names []string) {
	for _, e := range source.Entries() {
		if name, ok := strings.CutPrefix(e.Name, part+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

func looks(dir string) (image.Entry, error) {
	root, err := openDir(dir)
	if err != nil {
		return image.Entry{}, err
	}
	defer root.Close()
	return layer.Looks(root, "aside")
}

// setAside moves what is in a directory out of the way, within its file system.
func (r *restoring) setAside(ctx context.Context, n *note, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := aside{Dir: dir}
	var err error
	if a.Looks, err = looks(dir); err != nil {
		return err
	}
	if a.At, err = besides(dir, fmt.Sprintf("diapause-%s-%d", n.UID, n.Epoch)); err != nil {
		return err
	}
	n.Asides = append(n.Asides, a)
	if err := r.notes.write(*n); err != nil { // before anything is moved
		return err
	}
	if err := os.Mkdir(a.At, 0o700); err != nil {
		return err
	}
	if err := moveAll(dir, a.At); err != nil {
		return fmt.Errorf("set aside what is in it: %w", err)
	}
	n.Asides[len(n.Asides)-1].Ours = true
	return r.notes.write(*n)
}

// besides gives a place for the files of a volume: in the volume's own directory, which goes
// with it and which nobody mounts, or in the one that is mounted, if that is another file system.
func besides(dir, name string) (string, error) {
	var in, above unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &in), unix.Stat(filepath.Dir(dir), &above)); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	if in.Dev != above.Dev {
		return filepath.Join(dir, "."+name), nil
	}
	return filepath.Join(filepath.Dir(dir), name), nil
}

// moveAll moves what is in a directory to another one, durably. What is in its way there goes.
func moveAll(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Open(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	names, err := src.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if filepath.Join(from, name) == to {
			continue
		}
		if err := move(src, dst, name); err != nil {
			return err
		}
	}
	return errors.Join(dst.Sync(), src.Sync())
}

func move(from, to *os.File, name string) error {
	for {
		err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), name, unix.RENAME_NOREPLACE)
		switch {
		case err == unix.EINTR:
		case err == unix.EEXIST: // somebody was quick
			if err := os.RemoveAll(filepath.Join(to.Name(), name)); err != nil {
				return err
			}
		case err != nil:
			return &os.LinkError{Op: "move", Old: filepath.Join(from.Name(), name), New: to.Name(), Err: err}
		default:
			return nil
		}
	}
}

// putBack brings back what a restore that didn't come to its end had set aside. It can be cut
// off, and begun again.
func (r *remover) putBack(n *note) error {
	for len(n.Asides) > 0 {
		last := len(n.Asides) - 1
		if err := r.putOneBack(n, &n.Asides[last]); err != nil {
			return fmt.Errorf("put back what was in %s before session %s was to be restored: %w", n.Asides[last].Dir, n.Name, err)
		}
		n.Asides = n.Asides[:last]
		if err := r.notes.write(*n); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) putOneBack(n *note, a *aside) error {
	dir, err := os.Open(a.Dir)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed it, with all that was in it
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if a.At == "" {
		return emptied(dir, a)
	}
	there, err := exists(a.At)
	if err != nil {
		return err
	}
	if !there { // nothing was moved yet, or all is back
		return layer.Dress(dir, a.Looks)
	}
	if a.Ours {
		if err := layer.ClearBut(dir, filepath.Base(a.At)); err != nil {
			return err
		}
		a.Ours = false // from now on what is in it is what was
		if err := r.notes.write(*n); err != nil {
			return err
		}
	}
	if err := moveAll(a.At, a.Dir); err != nil {
		return err
	}
	if err := os.Remove(a.At); err != nil {
		return err
	}
	return layer.Dress(dir, a.Looks)
}

// emptied removes from a bind mount what a restore has put there.
func emptied(dir *os.File, a *aside) error {
	for _, name := range a.Names {
		if err := os.RemoveAll(filepath.Join(a.Dir, name)); err != nil {
			return err
		}
	}
	if a.Made {
		err := os.Remove(a.Dir)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY) { // it is in use by now
			return nil
		}
		return err
	}
	return layer.Dress(dir, a.Looks)
}

// dropAsides removes what is not needed any more.
func dropAsides(all []aside) error {
	for _, a := range slices.Backward(all) {
		if a.At == "" {
			continue
		}
		if err := os.RemoveAll(a.At); err != nil {
			return err
		}
	}
	return nil
}
