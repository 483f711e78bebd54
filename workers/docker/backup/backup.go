// Package backup keeps what directories hold while a restore replaces it, so that all of it
// comes back if the restore fails or its process is killed.
//
// A Dir says how far that has come. Its owner stores it durably before each step: after Plan
// and before Move, after Move and before anything is written to the directory. Undo brings
// back what was there, from any of these points, and may be cut off and repeated. Drop
// deletes what is no longer needed.
package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/layer"
)

// Dir is the backup of one directory.
type Dir struct {
	Dir      string      `json:"dir"`
	At       string      `json:"at,omitempty"`    // the directory that its files are moved to; "" if it was empty
	Looks    image.Entry `json:"looks"`           // its own attributes
	Replaced bool        `json:"ours,omitempty"`  // all its files are at At: what is in it now is the restore's
	Added    []string    `json:"names,omitempty"` // of an empty one: the names that the restore adds; others may add more
	Created  bool        `json:"made,omitempty"`  // of an empty one: the restore creates it
}

// Plan prepares the backup of a directory that isn't empty. name is unique among the backups
// of its file system.
func Plan(dir, name string) (Dir, error) {
	looks, err := looksOf(dir)
	if err != nil {
		return Dir{}, err
	}
	at, err := place(dir, name)
	if err != nil {
		return Dir{}, err
	}
	return Dir{Dir: dir, At: at, Looks: looks}, nil
}

// PlanEmpty prepares the backup of a directory that is empty or doesn't exist, to which a
// restore adds files of these names.
func PlanEmpty(dir string, names []string) (Dir, error) {
	d := Dir{Dir: dir, Replaced: true, Added: names}
	there, err := exists(dir)
	if err != nil {
		return Dir{}, err
	}
	if d.Created = !there; there {
		d.Looks, err = looksOf(dir)
	}
	return d, err
}

func looksOf(dir string) (image.Entry, error) {
	root, err := os.Open(dir)
	if err != nil {
		return image.Entry{}, err
	}
	defer root.Close()
	return layer.Looks(root, "backup")
}

// place is where the files of a directory are moved to: beside it, which for a volume is in
// the volume's own directory, removed with it and mounted nowhere. If that is another file
// system, it is in the directory itself.
func place(dir, name string) (string, error) {
	var in, above unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &in), unix.Stat(filepath.Dir(dir), &above)); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	if in.Dev != above.Dev {
		return filepath.Join(dir, "."+name), nil
	}
	return filepath.Join(filepath.Dir(dir), name), nil
}

// Move moves the files of the directory away. After it Replaced is set.
func (d *Dir) Move() error {
	if err := os.Mkdir(d.At, 0o700); err != nil {
		return err
	}
	if err := moveAll(d.Dir, d.At); err != nil {
		return fmt.Errorf("move the files of %s away: %w", d.Dir, err)
	}
	d.Replaced = true
	return nil
}

// moveAll moves what is in a directory to another one, durably. It replaces files of the same
// name.
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
		case err == unix.EEXIST: // another process made it meanwhile
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

// Undo brings back what the directory held. It calls store when d has changed, before the
// next step.
func (d *Dir) Undo(store func() error) error {
	dir, err := os.Open(d.Dir)
	if errors.Is(err, fs.ErrNotExist) { // it was removed with all that was in it
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if d.At == "" {
		return d.empty(dir)
	}
	there, err := exists(d.At)
	if err != nil {
		return err
	}
	if !there { // nothing was moved yet, or all is back
		return layer.Dress(dir, d.Looks)
	}
	if d.Replaced {
		if err := layer.ClearBut(dir, filepath.Base(d.At)); err != nil {
			return err
		}
		d.Replaced = false // what is in it from now on is what it held
		if err := store(); err != nil {
			return err
		}
	}
	if err := moveAll(d.At, d.Dir); err != nil {
		return err
	}
	if err := os.Remove(d.At); err != nil {
		return err
	}
	return layer.Dress(dir, d.Looks)
}

// empty removes what a restore added to a directory that was empty.
func (d *Dir) empty(dir *os.File) error {
	for _, name := range d.Added {
		if err := os.RemoveAll(filepath.Join(d.Dir, name)); err != nil {
			return err
		}
	}
	if d.Created {
		err := os.Remove(d.Dir)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY) { // others use it
			return nil
		}
		return err
	}
	return layer.Dress(dir, d.Looks)
}

// Drop deletes backups, the latest first.
func Drop(all []Dir) error {
	for _, d := range slices.Backward(all) {
		if d.At == "" {
			continue
		}
		if err := os.RemoveAll(d.At); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
