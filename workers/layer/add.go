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

// Sink takes the entries of an image. *image.Writer is one.
type Sink interface {
	Add(e image.Entry, content io.Reader) error
}

// Stamped is a Sink that may know a file's content by its stamp. *image.Writer is one.
type Stamped interface {
	AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error
}

// Storer stores content that gets an entry later. *image.Writer is one.
type Storer interface {
	AddAhead(stamp string, size int64, open func() (io.ReadCloser, error)) (bool, error)
}

// Added says what Add has seen.
type Added struct {
	Files   int
	Bytes   int64
	Skipped []string // sockets, which mean nothing without their processes
}

// Add adds what is below root, and root itself, under the name as. What vanishes
// meanwhile is left out: that happens only if the tree is in use.
func Add(ctx context.Context, sink Sink, root *os.File, as string, stamps *Stamps) (Added, error) {
	return (&walk{ctx: ctx, sink: sink, as: as, links: map[inode]string{}, stamps: stamps}).all(root)
}

// AddStill does the same for a tree that is not in use: there it is an error if something
// vanishes.
func AddStill(ctx context.Context, sink Sink, root *os.File, as string) error {
	_, err := (&walk{ctx: ctx, sink: sink, as: as, links: map[inode]string{}, still: true}).all(root)
	return err
}

func (w *walk) all(root *os.File) (Added, error) {
	e, err := Looks(root, w.as)
	if err != nil {
		return w.seen, fmt.Errorf("%s: %w", w.as, err)
	}
	if err := w.sink.Add(e, nil); err != nil {
		return w.seen, err
	}
	return w.seen, w.dir(root, w.as)
}

// Looks gives the entry of a directory itself.
func Looks(dir *os.File, as string) (image.Entry, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return image.Entry{}, err
	}
	e := EntryOf(as, &st)
	e.Type = image.TypeDir
	var err error
	e.Xattrs, err = readXattrs(dir, ".")
	return e, err
}

// Ahead stores the contents of the files below root that can be recognised later, while
// the tree is in use.
func Ahead(ctx context.Context, to Storer, root *os.File, stamps *Stamps) error {
	w := &walk{ctx: ctx, ahead: to, as: "ahead", links: map[inode]string{}, stamps: stamps}
	return w.dir(root, w.as)
}

type inode struct{ dev, ino uint64 }

// walk goes through a directory tree.
type walk struct {
	ctx    context.Context
	sink   Sink
	ahead  Storer // in place of sink: contents alone
	as     string
	links  map[inode]string // names that were added, of files with several
	stamps *Stamps
	still  bool // what vanishes is an error
	seen   Added
}

func (w *walk) dir(d *os.File, as string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	// Names are read by a descriptor of their own: d may be read again.
	list, err := openAt(d, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	names, err := list.Readdirnames(-1)
	list.Close()
	if err != nil {
		return fmt.Errorf("list %s: %w", as, err)
	}
	slices.Sort(names)
	for _, name := range names {
		err := w.entry(d, name, path.Join(as, name))
		if errors.Is(err, unix.ENOENT) && !w.still {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(as, name), err)
		}
	}
	return nil
}

func (w *walk) entry(d *os.File, name, as string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if w.ahead != nil {
		return w.content(d, name, as, &st)
	}
	e := EntryOf(as, &st)
	if first := w.added(&st, as); first != "" {
		e.Type, e.Link = image.TypeHardlink, first
		return w.sink.Add(e, nil)
	}
	var err error
	if e.Xattrs, err = readXattrs(d, name); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.below(d, name, e)
	case unix.S_IFREG:
		return w.file(d, name, e, &st)
	case unix.S_IFLNK:
		e.Type = image.TypeSymlink
		if e.Link, err = readlinkAt(d, name); err != nil {
			return err
		}
	case unix.S_IFIFO:
		e.Type = image.TypeFIFO
	case unix.S_IFCHR:
		e.Type, e.Rdev = image.TypeChar, st.Rdev
	case unix.S_IFBLK:
		e.Type, e.Rdev = image.TypeBlock, st.Rdev
	default:
		w.seen.Skipped = append(w.seen.Skipped, as)
		return nil
	}
	return w.sink.Add(e, nil)
}

// added notes the name of a file that has several, and gives the first one if
// that was added before.
func (w *walk) added(st *unix.Stat_t, as string) string {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&unix.S_IFMT == unix.S_IFSOCK || st.Nlink < 2 {
		return ""
	}
	id := inode{st.Dev, st.Ino}
	if first, ok := w.links[id]; ok {
		return first
	}
	w.links[id] = as
	return ""
}

// below adds a directory and what is in it.
func (w *walk) below(d *os.File, name string, e image.Entry) error {
	e.Type = image.TypeDir
	if err := w.sink.Add(e, nil); err != nil {
		return err
	}
	return w.into(d, name, e.Name)
}

func (w *walk) into(d *os.File, name, as string) error {
	sub, err := openAt(d, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer sub.Close()
	return w.dir(sub, as)
}

func (w *walk) file(d *os.File, name string, e image.Entry, st *unix.Stat_t) error {
	e.Type, e.Size = image.TypeFile, -1
	w.seen.Files++
	w.seen.Bytes += st.Size
	open := func() (io.ReadCloser, error) { return openFile(d, name, st.Size) }
	if s, ok := w.sink.(Stamped); ok {
		return s.AddStamped(e, w.stamps.of(d, st, w.rel(e.Name), w.known), open)
	}
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	return w.sink.Add(e, f)
}

// known reports whether the sink has the content under a stamp already.
func (w *walk) known(stamp string) bool {
	k, ok := w.sink.(Knower)
	if w.ahead != nil {
		k, ok = w.ahead.(Knower)
	}
	return ok && k.Knows(stamp)
}

func (w *walk) rel(as string) string { return strings.TrimPrefix(as, w.as+"/") }

// content stores a file's content ahead of its entry, or goes into a directory.
func (w *walk) content(d *os.File, name, as string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.into(d, name, as)
	case unix.S_IFREG:
		_, err := w.ahead.AddAhead(w.stamps.of(d, st, w.rel(as), w.known), st.Size, func() (io.ReadCloser, error) { return openFile(d, name, st.Size) })
		return err
	}
	return nil
}

// content of a file up to a size, with its holes skipped.
type content struct {
	r    io.Reader
	f    *os.File
	left int64
}

func openFile(d *os.File, name string, size int64) (io.ReadCloser, error) {
	f, err := openAt(d, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NOATIME|unix.O_NONBLOCK)
	if errors.Is(err, unix.EPERM) {
		f, err = openAt(d, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	}
	if err != nil {
		return nil, err
	}
	r, err := image.SparseFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &content{r, f, size}, nil
}

func (c *content) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// SkipHole implements image.HoleSkipper.
func (c *content) SkipHole() (int64, error) {
	if c.left <= 0 {
		return 0, nil
	}
	n, err := c.r.(image.HoleSkipper).SkipHole()
	c.left -= n
	return n, err
}

func (c *content) Close() error { return c.f.Close() }

// EntryOf gives the entry of a file, but for its type and what that needs.
func EntryOf(as string, st *unix.Stat_t) image.Entry {
	return image.Entry{Name: as, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, MTime: st.Mtim.Nano()}
}

func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

func readlinkAt(dir *os.File, name string) (string, error) {
	buf := make([]byte, 4097)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// byDescriptor is a path to name in dir for calls that take no descriptor.
func byDescriptor(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// elsewhere are attributes that mean nothing on another file system: which file of the
// layers below one was copied up from, and by which id a layer is known.
var elsewhere = []string{"trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.uuid", "user.overlay.origin", "user.overlay.impure", "user.overlay.uuid"}

func readXattrs(dir *os.File, name string) (map[string][]byte, error) {
	p := byDescriptor(dir, name)
	size, err := unix.Llistxattr(p, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	list := make([]byte, size)
	if size, err = unix.Llistxattr(p, list); err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	all := make(map[string][]byte)
	for attr := range strings.SplitSeq(string(bytes.TrimRight(list[:size], "\x00")), "\x00") {
		if attr == "" || slices.Contains(elsewhere, attr) {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(p, attr, value)
		if err != nil {
			return nil, fmt.Errorf("read attribute %s: %w", attr, err)
		}
		all[attr] = value[:n]
	}
	return all, nil
}
