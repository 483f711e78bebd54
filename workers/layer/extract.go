package layer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
)

// Source gives the entries of a verified image. *image.Reader is one.
type Source interface {
	Entries() []image.Entry
	Open(name string) (io.ReadCloser, error)
}

// holder is a Source that writes content with holes where it is zero.
type holder interface {
	CopyTo(dst *os.File, name string) error
}

// Extract puts the entries of an image below the name as into a directory, which it
// gives the looks of as itself. What is there already and isn't a directory is an error.
func Extract(ctx context.Context, source Source, as string, root *os.File) error {
	x := &extraction{source: source, root: root, as: as}
	for _, e := range source.Entries() {
		rel, ok := below(as, e.Name)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := x.extract(e, rel); err != nil {
			return fmt.Errorf("restore %s: %w", e.Name, err)
		}
	}
	return x.finish()
}

// below gives a name as it is below another, "" if it is that.
func below(as, name string) (rel string, ok bool) {
	if name == as {
		return "", true
	}
	return strings.CutPrefix(name, as+"/")
}

// extraction puts entries of an image below a directory. Images are verified
// before; even so no entry can reach outside it, by its name or by way of a
// symlink that another entry made.
type extraction struct {
	source Source
	root   *os.File
	as     string
	dirs   []stamped // whose times are set when all is in them
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
		if e.Type != image.TypeDir {
			return errors.New("the image has a root that is no directory")
		}
		x.dirs = append(x.dirs, stamped{".", e.MTime})
		return dress(x.root, ".", e)
	}
	dir, err := x.openDir(path.Dir(rel))
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
	if h, ok := x.source.(holder); ok {
		if err := h.CopyTo(f, e.Name); err != nil {
			return err
		}
		return f.Close()
	}
	r, err := x.source.Open(e.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := copyHoles(f, r)
	if err != nil {
		return err
	}
	if n != e.Size {
		return fmt.Errorf("the image has %d bytes of it, want %d", n, e.Size)
	}
	return f.Close()
}

var zeros [64 << 10]byte

// copyHoles writes content into an empty file, with holes where long stretches are zero.
func copyHoles(f *os.File, r io.Reader) (size int64, err error) {
	buf := make([]byte, len(zeros))
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := f.WriteAt(buf[:n], size); err != nil {
				return size, err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, f.Truncate(size)
		}
		if err != nil {
			return size, err
		}
	}
}

func (x *extraction) link(dir *os.File, base string, e image.Entry) error {
	target, ok := below(x.as, e.Link)
	if !ok || target == "" {
		return fmt.Errorf("the image has a link to %q, in another part", e.Link)
	}
	if err := checkName(target); err != nil {
		return err
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
	for _, d := range slices.Backward(x.dirs) {
		if err := setTime(int(x.root.Fd()), d.name, d.mtime); err != nil {
			return fmt.Errorf("restore %s: %w", path.Join(x.as, d.name), err)
		}
	}
	return nil
}

// Clear removes what is in a directory, and leaves the directory itself.
func Clear(dir *os.File) error {
	list, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	names, err := list.Readdirnames(-1)
	list.Close()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("empty a directory: %w", err)
		}
	}
	return nil
}
