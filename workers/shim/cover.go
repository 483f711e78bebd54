package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/hide"
	"github.com/diapause/diapause/workers/shim/criu/core"
)

// covers is where the layer is that hides files of the host, if it is in memory.
func (p place) covers() string { return filepath.Join(p.dir, "covers") }

// cover makes the layer that hides files of the host. It returns nothing if there is nothing to
// hide.
//
// It is in the file system of the session's own layer, if that is one: overlay gives
// the files of the root below other inode numbers if there is one more file system above it.
// Where that takes no more, or is a directory, it is in memory.
func (p place) cover() (string, error) {
	if len(p.hide) == 0 {
		return "", nil
	}
	if p.own.device != "" {
		dir := filepath.Join(p.own.at, "covers")
		err := makeDir(dir)
		if err == nil {
			err = hide.Cover(dir, p.base, p.hide)
		}
		if err == nil || !takesNoMore(err) {
			return dir, err
		}
	}
	if err := makeDir(p.covers()); err != nil {
		return "", err
	}
	if err := mountMemory(p.covers(), coverLimit); err != nil {
		return "", err
	}
	if err := hide.Cover(p.covers(), p.base, p.hide); err != nil {
		drop(p.covers())
		return "", err
	}
	return p.covers(), nil
}

// coverLimit bounds the memory for hiding files, in bytes: it takes a page a directory.
const coverLimit = 16 << 20

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// takesNoMore reports whether a file system is full or has failed.
func takesNoMore(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fitMounts leaves out of the image what is mounted at places of /proc and /sys that this host's
// kernel doesn't have: there is nothing to hide or protect.
func (p place) fitMounts() error {
	return core.KeepMounts(p.images(), func(point string) bool {
		if !strings.HasPrefix(point, "/proc/") && !strings.HasPrefix(point, "/sys/") {
			return true
		}
		_, err := os.Lstat(point)
		return !errors.Is(err, os.ErrNotExist)
	})
}

// makeMountPoints makes the directories on which the image has something mounted, if the root of
// this host lacks them.
func (p place) makeMountPoints() error {
	points, err := core.MountPoints(p.images())
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(p.root())
	if err != nil {
		return err
	}
	defer root.Close()
	for _, point := range points {
		rel := strings.TrimPrefix(point, "/")
		if _, err := root.Stat(rel); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return err
		}
	}
	return nil
}
