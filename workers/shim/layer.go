package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer/ext4"
)

// LayerFile says that a session's private layer is a file system in a file, which keeps
// inode numbers. Without it the layer is a directory.
const LayerFile = "ext4"

// layer is a session's private layer: what it writes above the root below it. Its upper and
// work directories are in a file system of their own, which is mounted in the shim's mount
// namespace, or in the session's directory where that can't be.
type layer struct {
	dir    string   // of the session
	at     string   // where upper and work are
	disk   *os.File // that has the file system; nil if it is a directory
	device string   // on which it is mounted
}

// LayerPath and LayerMount are the file of a layer and where a shim mounts it, in the
// directory of its session.
func LayerPath(session string) string  { return filepath.Join(session, "layer.img") }
func LayerMount(session string) string { return filepath.Join(session, "layer") }

func (l *layer) upper() string { return filepath.Join(l.at, "upper") }
func (l *layer) work() string  { return filepath.Join(l.at, "work") }

// openLayer makes a new layer, or a file for one that comes from an image.
func openLayer(s Setup) (*layer, error) {
	l := &layer{dir: s.Dir, at: s.Dir}
	if s.LayerSize == 0 && s.Spec.Disk > 0 {
		return nil, refuseDisk(s, nil)
	}
	if s.LayerSize == 0 {
		return l, l.makeDirs()
	}
	// What is on an overlay may be in a container's own layer, which goes with the container.
	var fs unix.Statfs_t
	if err := unix.Statfs(s.Dir, &fs); err != nil {
		return nil, fmt.Errorf("make the session's layer: %w", err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return nil, refuseOverlay(s.Dir, nil)
	}
	f, err := os.OpenFile(LayerPath(s.Dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the session's layer: %w", err)
	}
	l.disk = f
	if s.LayerGiven {
		return l, nil
	}
	if err := ext4.Format(f, s.LayerSize, time.Now()); err != nil {
		return nil, err
	}
	err = l.mount()
	if !errors.Is(err, ext4.ErrNoLoop) {
		return l, err
	}
	if s.Spec.Disk > 0 {
		return nil, refuseDisk(s, err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return nil, fmt.Errorf("remove a layer that can't be mounted: %w", err)
	}
	l.disk = nil
	return l, l.makeDirs()
}

// refuseDisk says that a directory can't be bounded.
func refuseDisk(s Setup, err error) error {
	return &driver.Error{
		Kind: driver.Refused, Err: err, Text: fmt.Sprintf("this host can't hold the files of session %s to %s", s.Name, schemas.Bytes(s.Spec.Disk)),
		Hint: "load the kernel module loop (in a container give it loop devices), or leave --disk out",
	}
}

// mount mounts the file system, and makes the directories in it that a new one lacks.
func (l *layer) mount() error {
	at := LayerMount(l.dir)
	if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the session's directory: %w", err)
	}
	device, err := ext4.Mount(l.disk, at)
	if err != nil {
		return fmt.Errorf("mount the session's layer: %w", err)
	}
	l.at, l.device = at, device
	l.bound()
	return l.makeDirs()
}

// bound has the file system give no more than the host's disk has. Where it can't, as in a
// container whose /sys can't be written, a full disk is an error of input and output inside.
func (l *layer) bound() {
	room, err := ext4.Room(l.dir)
	if err != nil {
		return
	}
	if promised, err := ext4.Promised(l.at, l.disk.Name()); err == nil {
		_ = ext4.Bound(l.at, max(room-promised, 0))
	}
}

// mountGiven mounts a file system that was put into the file.
func (l *layer) mountGiven() error {
	if l.disk == nil || l.device != "" {
		return nil
	}
	err := l.mount()
	if errors.Is(err, ext4.ErrNoLoop) {
		return &driver.Error{Kind: driver.Refused, Err: err, Text: "the session's layer can't be mounted on this host", Hint: "load the kernel module loop, or resume it on another host"}
	}
	return err
}

func (l *layer) makeDirs() error {
	for _, d := range []string{l.upper(), l.work()} {
		err := os.Mkdir(d, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		// The upper layer's root is the session's "/", for every user.
		if err == nil && d == l.upper() {
			err = os.Chmod(d, 0o755)
		}
		if err != nil {
			return fmt.Errorf("make the session's layer: %w", err)
		}
	}
	return nil
}

// sync writes out what the file system has in memory: into the host's memory, since nothing
// of it is flushed to a disk.
func (l *layer) sync() error {
	if l.disk == nil {
		return nil
	}
	if err := l.hasRoom(); err != nil {
		return err
	}
	dir, err := os.Open(l.at)
	if err != nil {
		return fmt.Errorf("sync the session's layer: %w", err)
	}
	defer dir.Close()
	err = unix.Syncfs(int(dir.Fd()))
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO) {
		return &driver.Error{
			Kind: driver.Refused, Err: err, Text: "the file system of the session's own files has failed",
			Hint: "the host's disk was full, or is broken: copy out what matters with `diapause cp`, then go back to a snapshot with `diapause rollback`",
		}
	}
	if err != nil {
		return fmt.Errorf("sync the session's layer: %w", err)
	}
	return nil
}

// syncMargin is what a file system's own structures may take of the disk when it is written
// out, in bytes.
const syncMargin = 1 << 20

// hasRoom refuses to write out what the disk hasn't room for: the file system would fail for
// good, with what it couldn't write lost. As long as nothing is written out, the session has it.
func (l *layer) hasRoom() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(l.dir, &fs); err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	needed, err := ext4.Promised(l.at, l.disk.Name())
	if err != nil {
		return err
	}
	free := int64(fs.Bfree) * fs.Bsize
	if needed += syncMargin; free >= needed {
		return nil
	}
	return &driver.Error{
		Kind: driver.Refused, Err: unix.ENOSPC,
		Text: fmt.Sprintf("the data directory's disk is full: %s free, %s needed", schemas.Bytes(free), schemas.Bytes(needed)),
		Hint: "free room on it, then try again; until then the session runs on, and what it wrote last isn't on the disk",
	}
}

// open gives what a worker captures: the file that has the file system, or the directory.
func (l *layer) open() (f *os.File, kind string, err error) {
	if l.disk == nil {
		f, err = os.Open(l.upper())
		return f, "", err
	}
	if err := l.sync(); err != nil {
		return nil, "", err
	}
	f, err = os.Open(l.disk.Name())
	return f, LayerFile, err
}

// target gives where a worker puts a layer that comes from an image: the empty file for
// its file system, or a directory for its files.
func (l *layer) target() (*os.File, error) {
	path, flags := l.upper(), os.O_RDONLY
	if l.disk != nil && l.device == "" {
		path, flags = l.disk.Name(), os.O_RDWR
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open the session's layer: %w", err)
	}
	return f, nil
}

// warnings names what a directory can't keep.
func (l *layer) warnings() []schemas.Warning {
	if l.disk != nil {
		return nil
	}
	return []schemas.Warning{{Code: schemas.WarnInodes, At: time.Now().UTC(),
		Text: "inode numbers of the session's own files change at a resume, since this host has no loop devices: open SQLite databases can't be written then"}}
}
