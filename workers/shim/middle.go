package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// settledMiddle gives the middle layer: what the session was using of its root, where this host
// hasn't the same. It is nothing if that is nothing.
//
// It is moved into the file system of the session's own layer, if that is one. In memory it would be
// one more file system above the root, and overlay would give all files of the root, and
// those copied up from it, other inode numbers. Where the layer takes no more it stays in memory.
func (p place) settledMiddle() (string, error) {
	names, err := os.ReadDir(p.middle())
	if err != nil {
		return "", fmt.Errorf("look for the middle layer: %w", err)
	}
	if p.own.device == "" {
		return some(p.middle(), len(names)), nil
	}
	dir := filepath.Join(p.own.at, "middle")
	err = os.RemoveAll(dir) // that of the last resume
	if err == nil && len(names) > 0 {
		err = copyLayer(p.middle(), dir)
	}
	if takesNoMore(err) {
		_ = os.RemoveAll(dir) // what came in takes room of the session's; a layer that has failed keeps it
		return some(p.middle(), len(names)), nil
	}
	if err != nil {
		return "", fmt.Errorf("make the middle layer: %w", err)
	}
	return some(dir, len(names)), nil
}

func some(dir string, names int) string {
	if names == 0 {
		return ""
	}
	return dir
}

// copyLayer copies a tree of directories and files, which is all that a middle layer has, to a new
// directory, with their looks.
func copyLayer(from, to string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	var dirs []string
	err = fs.WalkDir(source.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			dirs = append(dirs, name)
			if name == "." {
				return nil
			}
			return target.Mkdir(name, 0o700)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is neither a directory nor a file", name)
		}
		return copyFile(source, target, name)
	})
	// A directory's time counts when all is in it.
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = copyLooks(source, target, dirs[i])
	}
	return err
}

func copyFile(source, target *os.Root, name string) error {
	in, err := source.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := target.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return copyLooks(source, target, name)
}

func copyLooks(source, target *os.Root, name string) error {
	f, err := source.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if err := target.Chown(name, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	mode := fs.FileMode(st.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if st.Mode&bit != 0 {
			mode |= flag
		}
	}
	if err := target.Chmod(name, mode); err != nil {
		return err
	}
	return target.Chtimes(name, time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()))
}
