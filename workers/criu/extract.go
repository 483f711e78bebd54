package criu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
)

// extraction puts entries of an image below a directory. Images are verified
// before; even so no entry can reach outside it, by its name or by way of a
// symlink that another entry made.
type extraction struct {
	source driver.Source
	root   *os.File
	below  *os.Root // directories that the image doesn't name get their looks from here

	dirs []stamped // whose times are set when all is in them
}

type stamped struct {
	name  string
	mtime int64
}

// extract makes one entry under the name rel; "" is the root itself.
func (x *extraction) extract(e image.Entry, rel string) error {
	if err := checkName(rel); err != nil {
		return err
	}
	if rel == "" {
		return x.rootItself(e)
	}
	dir, err := x.parent(path.Dir(rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(rel)
	if err := x.make(dir, base, e); err != nil {
		return err
	}
	if e.Type == image.TypeHardlink {
		return nil // it has the looks of the other name
	}
	if e.Type == image.TypeDir {
		x.dirs = append(x.dirs, stamped{rel, e.MTime})
	}
	return dress(dir, base, e)
}

func checkName(rel string) error {
	if rel == "" {
		return nil
	}
	for element := range strings.SplitSeq(rel, "/") {
		if element == "" || element == "." || element == ".." || strings.ContainsRune(element, 0) {
			return fmt.Errorf("the image has a name that leads elsewhere: %q", rel)
		}
	}
	return nil
}

func (x *extraction) rootItself(e image.Entry) error {
	if e.Type != image.TypeDir {
		return errors.New("the image has a root that is no directory")
	}
	x.dirs = append(x.dirs, stamped{".", e.MTime})
	return dress(x.root, ".", e)
}

// openDir opens a directory below the root that is reached by no symlink.
func (x *extraction) openDir(rel string) (*os.File, error) {
	fd, err := unix.Openat2(int(x.root.Fd()), rel, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: rel, Err: err}
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// parent opens a directory, which it makes if it isn't there.
func (x *extraction) parent(rel string) (*os.File, error) {
	d, err := x.openDir(rel)
	if !errors.Is(err, unix.ENOENT) || rel == "." {
		return d, err
	}
	above, err := x.parent(path.Dir(rel))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	base := path.Base(rel)
	if err := unix.Mkdirat(int(above.Fd()), base, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	if err := x.copyLooks(rel, above, base); err != nil {
		return nil, err
	}
	return x.openDir(rel)
}

// copyLooks gives a directory that was made on the way the owner and mode of the
// one below, which it will be merged with.
func (x *extraction) copyLooks(rel string, above *os.File, base string) error {
	if x.below == nil {
		return nil
	}
	f, err := openBelow(x.below, rel)
	if err != nil {
		return nil // there is none
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if err := unix.Fchownat(int(above.Fd()), base, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return unix.Fchmodat(int(above.Fd()), base, st.Mode&0o7777, 0)
}

func (x *extraction) make(dir *os.File, base string, e image.Entry) error {
	at := int(dir.Fd())
	switch e.Type {
	case image.TypeFile:
		return x.file(dir, base, e)
	case image.TypeDir:
		if err := unix.Mkdirat(at, base, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	case image.TypeSymlink:
		return unix.Symlinkat(e.Link, at, base)
	case image.TypeHardlink:
		return x.link(dir, base, e)
	case image.TypeFIFO:
		return unix.Mknodat(at, base, unix.S_IFIFO|0o600, 0)
	case image.TypeChar:
		return unix.Mknodat(at, base, unix.S_IFCHR|0o600, int(e.Rdev))
	case image.TypeBlock:
		return unix.Mknodat(at, base, unix.S_IFBLK|0o600, int(e.Rdev))
	}
	return fmt.Errorf("the image has an entry of unknown type %q", e.Type)
}

func (x *extraction) file(dir *os.File, base string, e image.Entry) error {
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	r, err := x.source.Open(e.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.CopyBuffer(onlyWriter{f}, r, make([]byte, 1<<20))
	if err != nil {
		return err
	}
	if n != e.Size {
		return fmt.Errorf("the image has %d bytes of it, want %d", n, e.Size)
	}
	return f.Close()
}

// onlyWriter keeps io.Copy from looking for other ways.
type onlyWriter struct{ io.Writer }

func (x *extraction) link(dir *os.File, base string, e image.Entry) error {
	target := strings.TrimPrefix(e.Link, part(e.Link)+"/")
	if err := checkName(target); err != nil {
		return err
	}
	if part(e.Link) != part(e.Name) {
		return fmt.Errorf("the image has a link to %q, in another part", e.Link)
	}
	from, err := x.openDir(path.Dir(target))
	if err != nil {
		return err
	}
	defer from.Close()
	return unix.Linkat(int(from.Fd()), path.Base(target), int(dir.Fd()), base, 0)
}

// dress gives a file its owner, mode, attributes and time.
func dress(dir *os.File, base string, e image.Entry) error {
	at := int(dir.Fd())
	if err := unix.Fchownat(at, base, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its owner: %w", err)
	}
	if e.Type != image.TypeSymlink {
		if err := unix.Fchmodat(at, base, e.Mode, 0); err != nil {
			return fmt.Errorf("set its mode: %w", err)
		}
	}
	for name, value := range e.Xattrs {
		if err := unix.Lsetxattr(byDescriptor(dir, base), name, value, 0); err != nil {
			return fmt.Errorf("set its attribute %s: %w", name, err)
		}
	}
	return setTime(at, base, e.MTime)
}

func setTime(at int, base string, mtime int64) error {
	when := unix.NsecToTimespec(mtime)
	if err := unix.UtimesNanoAt(at, base, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its time: %w", err)
	}
	return nil
}

// finish sets the times of the directories, the deepest first.
func (x *extraction) finish() error {
	for i := len(x.dirs) - 1; i >= 0; i-- {
		if err := setTime(int(x.root.Fd()), x.dirs[i].name, x.dirs[i].mtime); err != nil {
			return err
		}
	}
	return nil
}
