package criu

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
	"github.com/diapause/diapause/workers/driver"
)

// addUpper adds the session's own files: its overlay's upper layer, whiteouts
// and the overlay's own attributes included.
func addUpper(ctx context.Context, sink driver.Sink, upper *os.File) error {
	if err := addTree(ctx, sink, upper, partUpper); err != nil {
		return fmt.Errorf("add the session's files to the image: %w", err)
	}
	return nil
}

type inode struct{ dev, ino uint64 }

// walk adds a directory tree to a sink.
type walk struct {
	ctx   context.Context
	sink  driver.Sink
	links map[inode]string // names that were added, of files with several
}

// addTree adds what is below root, and root itself, under the name as.
func addTree(ctx context.Context, sink driver.Sink, root *os.File, as string) error {
	w := &walk{ctx: ctx, sink: sink, links: make(map[inode]string)}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	e := entryOf(as, &st)
	e.Type = image.TypeDir
	if err := sink.Add(e, nil); err != nil {
		return err
	}
	return w.dir(root, as)
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
		if err := w.entry(d, name, path.Join(as, name)); err != nil {
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
	e := entryOf(as, &st)
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
		return w.file(d, name, e, st.Size)
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
		return nil // a socket: criu binds those that are in use anew
	}
	return w.sink.Add(e, nil)
}

// added notes the name of a file that has several, and gives the first one if
// that was added before.
func (w *walk) added(st *unix.Stat_t, as string) string {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Nlink < 2 {
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
	sub, err := openAt(d, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer sub.Close()
	return w.dir(sub, e.Name)
}

func (w *walk) file(d *os.File, name string, e image.Entry, size int64) error {
	f, err := openAt(d, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) {
		f, err = openAt(d, name, unix.O_RDONLY|unix.O_NOFOLLOW)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	e.Type, e.Size = image.TypeFile, size
	return w.sink.Add(e, io.LimitReader(f, size))
}

func entryOf(as string, st *unix.Stat_t) image.Entry {
	return image.Entry{
		Name: as, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, MTime: st.Mtim.Nano(),
	}
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
		// Which file this one was copied up from means nothing elsewhere.
		if attr == "" || attr == "trusted.overlay.origin" || attr == "trusted.overlay.impure" {
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
