package treecopy

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Receive unpacks the tar stream that the client c sends: below name, a path within root,
// if that is a directory, else as name. It tells the client when to begin and when all is
// written.
func Receive(c io.ReadWriter, root *os.File, name string) error {
	dir, as, err := openTarget(root, path.Clean("/"+name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := attach.WriteFrame(c, attach.FrameStarted, nil); err != nil {
		return nil // the client is gone
	}
	if err := unpack(dir, as, tar.NewReader(&attach.InputReader{From: c})); err != nil {
		return err
	}
	return attach.WriteJSON(c, attach.FrameExit, schemas.ExitStatus{})
}

// openTarget opens the directory to unpack in: name itself, or else its parent. as is
// then the name that the first element of the entries' names is replaced by.
func openTarget(root *os.File, name string) (dir *os.File, as string, err error) {
	dir, err = Open(root, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return dir, "", err
	}
	dir, err = Open(root, path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return dir, path.Base(name), err
}

func unpack(dir *os.File, as string, t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackOne(dir, target(h.Name, as), h, t); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// target is the path of an entry: its own, with as in place of its first
// element if that is given.
func target(name, as string) string {
	name = path.Clean("/" + name)[1:]
	if as == "" {
		return name
	}
	_, rest, _ := strings.Cut(name, "/")
	return path.Join(as, rest)
}

func unpackOne(dir *os.File, name string, h *tar.Header, content io.Reader) error {
	if name == "" {
		return nil
	}
	parent, err := Open(dir, path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	base, at, mode := path.Base(name), int(parent.Fd()), uint32(h.Mode&0o7777)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := unix.Mkdirat(at, base, mode); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	case tar.TypeSymlink:
		if err := unix.Unlinkat(at, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		if err := unix.Symlinkat(h.Linkname, at, base); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := writeNew(at, base, mode, content); err != nil {
			return err
		}
	default:
		return errors.New("only files, directories and symlinks are copied")
	}
	if err := unix.Fchownat(at, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	when := unix.NsecToTimespec(h.ModTime.UnixNano())
	return unix.UtimesNanoAt(at, base, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
}

// writeNew makes a new file in the place of what has that name.
func writeNew(at int, base string, mode uint32, content io.Reader) error {
	if err := unix.Unlinkat(at, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(at, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	_, err = io.Copy(f, content)
	return errors.Join(err, unix.Fchmod(int(f.Fd()), mode), f.Close())
}

// Send sends name, a path within root, to the client c as a tar stream, whose names begin
// with the last element of name, and tells it when all is sent.
func Send(c io.Writer, root *os.File, name string) error {
	if err := attach.WriteFrame(c, attach.FrameStarted, nil); err != nil {
		return nil // the client is gone
	}
	t := tar.NewWriter(attach.FrameWriter{To: c, Kind: attach.FrameStdout})
	name = path.Clean("/" + name)
	if err := pack(t, root, name, path.Base(name)); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return attach.WriteJSON(c, attach.FrameExit, schemas.ExitStatus{})
}

// pack writes what is at name, and below it, under the name as.
func pack(t *tar.Writer, root *os.File, name, as string) error {
	f, err := Open(root, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	h := &tar.Header{
		Name: strings.TrimPrefix(as, "/"), Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return packDir(t, root, name, h)
	case unix.S_IFREG:
		return packFile(t, root, name, h, &st)
	case unix.S_IFLNK:
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(int(f.Fd()), "", buf)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(buf[:n])
		return t.WriteHeader(h)
	}
	return nil // sockets, pipes and devices have no content
}

func packDir(t *tar.Writer, root *os.File, name string, h *tar.Header) error {
	if h.Name == "" {
		h.Name = "."
	}
	h.Typeflag = tar.TypeDir
	as := h.Name
	h.Name += "/"
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	d, err := Open(root, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		err := pack(t, root, path.Join(name, n), path.Join(as, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return err
		}
	}
	return nil
}

func packFile(t *tar.Writer, root *os.File, name string, h *tar.Header, st *unix.Stat_t) error {
	f, err := Open(root, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkHoles(f, name, st); err != nil {
		return err
	}
	size := st.Size
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(t, io.LimitReader(f, size))
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was copied", name)
	}
	return err
}
