package hide

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// opaque is the attribute by which overlay shows nothing of the layers below a directory.
const opaque = "trusted.overlay.opaque"

// between is a directory that has something hidden in it.
const between Kind = "between"

// cover is a layer that is made.
type cover struct {
	layer *os.Root
	root  string
	want  map[string]Kind // by the path relative to the root
}

// Cover makes of a directory a layer that hides paths of the root below it. What is there from
// before and is right stays as it is, so that its inode numbers do.
func Cover(dir, root string, hidden []Path) error {
	layer, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("hide files of the host: %w", err)
	}
	defer layer.Close()
	c := &cover{layer: layer, root: root, want: map[string]Kind{}}
	for _, p := range hidden {
		c.want[p.Name] = p.Kind
		for d := path.Dir(p.Name); d != "."; d = path.Dir(d) {
			c.want[d] = between
		}
	}
	if err := c.make(); err != nil {
		return fmt.Errorf("hide files of the host: %w", err)
	}
	return nil
}

func (c *cover) make() error {
	if err := c.clear(); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(c.want)) // a directory before what is in it
	for _, name := range names {
		if err := c.place(name); err != nil {
			return err
		}
	}
	slices.Reverse(names)
	for _, name := range names { // and its time after that
		if c.want[name] == between {
			if err := c.looks(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes what isn't of the wanted type. What is left has no symlink.
func (c *cover) clear() error {
	return fs.WalkDir(c.layer.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." || c.keeps(name, e) {
			return err
		}
		if err := c.layer.RemoveAll(name); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func (c *cover) keeps(name string, e fs.DirEntry) bool {
	kind := c.want[name]
	if e.IsDir() {
		return kind == Dir || kind == between
	}
	info, err := e.Info()
	if err != nil {
		return false
	}
	switch e.Type() {
	case 0:
		return kind == File && info.Size() == 0
	case fs.ModeDevice | fs.ModeCharDevice:
		return kind == None
	}
	return false
}

// place makes one path what it is to be, if it isn't.
func (c *cover) place(name string) error {
	switch kind := c.want[name]; kind {
	case File:
		f, err := c.layer.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Chmod(0), f.Chown(0, 0), f.Close())
	case None:
		return c.whiteout(name)
	case Dir, between:
		if err := c.layer.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return c.in(name, func(fd int) error {
			if kind == Dir {
				return errors.Join(unix.Fsetxattr(fd, opaque, []byte("y"), 0), unix.Fchown(fd, 0, 0), unix.Fchmod(fd, 0o555))
			}
			if err := unix.Fremovexattr(fd, opaque); err != unix.ENODATA {
				return err
			}
			return nil
		})
	}
	return nil
}

func (c *cover) whiteout(name string) error {
	if _, err := c.layer.Lstat(name); err == nil {
		return nil
	}
	return c.in(path.Dir(name), func(fd int) error { return unix.Mknodat(fd, path.Base(name), unix.S_IFCHR, 0) })
}

// in does something with a directory of the layer.
func (c *cover) in(name string, do func(fd int) error) error {
	d, err := c.layer.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := do(int(d.Fd())); err != nil {
		return &fs.PathError{Op: "cover", Path: "/" + name, Err: err}
	}
	return nil
}

// looks gives a directory the owner, mode, times and lists of access that the root's has: it is
// seen in its place.
func (c *cover) looks(name string) error {
	from := filepath.Join(c.root, name)
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // it went meanwhile
	}
	return c.in(name, func(fd int) error {
		err := errors.Join(unix.Fchown(fd, int(st.Uid), int(st.Gid)), unix.Fchmod(fd, st.Mode&0o7777), copyLists(fd, from))
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
	})
}

func copyLists(fd int, from string) error {
	for _, list := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		n, err := unix.Lgetxattr(from, list, nil)
		if err != nil {
			continue // it has none
		}
		value := make([]byte, n)
		if n, err = unix.Lgetxattr(from, list, value); err != nil {
			return err
		}
		if err := unix.Fsetxattr(fd, list, value[:n], 0); err != nil && err != unix.EOPNOTSUPP {
			return err
		}
	}
	return nil
}
