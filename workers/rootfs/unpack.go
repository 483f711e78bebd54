package rootfs

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/sparse"
)

// unpacker puts the layers of an image into a directory, one above the other. A path in a layer is
// followed as a process would whose root that directory is: not out of it.
type unpacker struct {
	root    *os.File
	room    *room
	content budget // of files
	stream  budget // of archives
	entries budget
	times   map[string]time.Time // of directories, which are set at the end
	made    map[uint64]bool      // the inodes that the layer being unpacked has made
}

func newUnpacker(root *os.File, l limits, r *room) *unpacker {
	return &unpacker{
		root: root, room: r, content: budget{"files", l.bytes}, stream: budget{"archives", l.bytes},
		entries: budget{"file names", l.entries}, times: map[string]time.Time{},
	}
}

// layer unpacks a layer, and verifies what it is made of.
func (u *unpacker) layer(ctx context.Context, file string, diffID v1.Hash) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := decompress(f)
	if err != nil {
		return damaged("it can't be decompressed: %v", err)
	}
	defer plain.Close()
	sum := sha256.New()
	in := &failing{r: io.TeeReader(bounded{plain, &u.stream}, sum)}
	u.made = map[uint64]bool{}
	for archive := tar.NewReader(in); ; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return in.because(damaged("its archive can't be read: %v", err))
		}
		if err := u.entry(h, archive); err != nil {
			return in.because(about(h.Name, err))
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return in.because(damaged("its archive can't be read: %v", err))
	}
	if diffID.Algorithm != "sha256" || hex.EncodeToString(sum.Sum(nil)) != diffID.Hex {
		return damaged("it isn't what the image's config says: %s", diffID)
	}
	return nil
}

// failing remembers why a stream ended, which who reads it may tell less plainly.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

func (f *failing) because(err error) error {
	var known *driver.Error
	if errors.As(f.err, &known) {
		return f.err
	}
	return err
}

// about names the entry that an error is about. What the disk says stays as it is; what is wrong
// else is wrong with the archive.
func about(name string, err error) error {
	var known *driver.Error
	if errors.As(err, &known) || full(err, "") != err || errors.Is(err, unix.EIO) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%q: %w", shortened(name), err)
	}
	return damaged("%q can't be unpacked: %v", shortened(name), err)
}

func shortened(name string) string { return name[:min(len(name), 200)] }

// decompress tells by its first bytes how a layer is compressed.
func decompress(f io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(f, 256<<10)
	magic, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case isGzip(magic):
		return gzip.NewReader(b)
	case isZstd(magic):
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}

func isGzip(magic []byte) bool { return bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) }
func isZstd(magic []byte) bool { return bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) }

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// entry makes what an entry of a layer says, or removes what it says is gone.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := u.entries.take(1); err != nil {
		return err
	}
	rel := clean(h.Name)
	if rel == "" {
		return u.rootItself(h)
	}
	dir, err := u.parent(path.Dir(rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(rel)
	switch {
	case base == opaque:
		_, err := u.prune(dir)
		return err
	case strings.HasPrefix(base, whiteout+whiteout): // what other tools note for themselves
		return nil
	case strings.HasPrefix(base, whiteout):
		return u.remove(dir, strings.TrimPrefix(base, whiteout))
	}
	if err := u.replace(dir, base, h); err != nil {
		return err
	}
	if err := u.make(dir, base, h, content); err != nil {
		return err
	}
	return u.dress(dir, base, rel, h)
}

// clean gives a name as it is below the root, "" if it is that.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func (u *unpacker) rootItself(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return errors.New("the root is no directory")
	}
	return u.dress(u.root, ".", ".", h)
}

// open opens a directory as a process would whose root is the tree.
func (u *unpacker) open(rel string) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(u.root.Fd()), rel, &unix.OpenHow{
			Flags:   unix.O_CLOEXEC | unix.O_RDONLY | unix.O_DIRECTORY,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
}

// parent opens a directory, which it makes if it isn't there.
func (u *unpacker) parent(rel string) (*os.File, error) {
	d, err := u.open(rel)
	if err != unix.ENOENT || rel == "." {
		return d, err
	}
	above, err := u.parent(path.Dir(rel))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := unix.Mkdirat(int(above.Fd()), path.Base(rel), 0o755); err != nil {
		return nil, err
	}
	if err := u.note(above, path.Base(rel)); err != nil {
		return nil, err
	}
	return u.open(rel)
}

func lstat(dir *os.File, base string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// note notes that the layer has made a file.
func (u *unpacker) note(dir *os.File, base string) error {
	st, err := lstat(dir, base)
	u.made[st.Ino] = true
	return err
}

// remove removes what a whiteout hides, unless the same layer has made it.
func (u *unpacker) remove(dir *os.File, base string) error {
	if base == "" || base == "." || base == ".." || strings.Contains(base, "/") {
		return errors.New("it hides no file")
	}
	st, err := lstat(dir, base)
	if errors.Is(err, unix.ENOENT) || err == nil && u.made[st.Ino] {
		return nil
	}
	if err != nil {
		return err
	}
	return removeAll(dir, base)
}

func removeAll(dir *os.File, base string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(base)
}

// prune removes what the layers below have in a directory, and reports whether anything is left.
func (u *unpacker) prune(dir *os.File) (left bool, err error) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		st, err := lstat(dir, name)
		if err != nil {
			return false, err
		}
		stays := u.made[st.Ino]
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			inner, err := u.pruneBelow(dir, name)
			if err != nil {
				return false, err
			}
			stays = stays || inner
		}
		if !stays {
			if err := removeAll(dir, name); err != nil {
				return false, err
			}
		}
		left = left || stays
	}
	return left, nil
}

func (u *unpacker) pruneBelow(dir *os.File, name string) (bool, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	return u.prune(d)
}

// replace removes what is in the way of an entry. Two directories become one.
func (u *unpacker) replace(dir *os.File, base string, h *tar.Header) error {
	st, err := lstat(dir, base)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil || h.Typeflag == tar.TypeDir && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return err
	}
	return removeAll(dir, base)
}

// make makes a file without its looks.
func (u *unpacker) make(dir *os.File, base string, h *tar.Header, content io.Reader) error {
	at := int(dir.Fd())
	var err error
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse: // archive/tar tells the old kind of file as TypeReg
		err = u.file(dir, base, h, content)
	case tar.TypeDir:
		if err = unix.Mkdirat(at, base, 0o700); errors.Is(err, unix.EEXIST) {
			err = nil
		}
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, at, base)
	case tar.TypeLink:
		err = u.link(dir, base, h.Linkname)
	case tar.TypeFifo:
		err = unix.Mknodat(at, base, unix.S_IFIFO|0o600, 0)
	case tar.TypeChar, tar.TypeBlock:
		err = mknod(at, base, h)
	default:
		return fmt.Errorf("it is of the unknown kind %q", h.Typeflag)
	}
	if err != nil {
		return err
	}
	if _, err := lstat(dir, base); errors.Is(err, unix.ENOENT) && isDevice(h) {
		return nil
	}
	return u.note(dir, base)
}

func isDevice(h *tar.Header) bool { return h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock }

// mknod makes a device, if this process may: no session can use it.
func mknod(at int, base string, h *tar.Header) error {
	kind := uint32(unix.S_IFCHR)
	if h.Typeflag == tar.TypeBlock {
		kind = unix.S_IFBLK
	}
	err := unix.Mknodat(at, base, kind|0o600, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// link makes a hard link to a file of the tree.
func (u *unpacker) link(dir *os.File, base, to string) error {
	target := clean(to)
	if target == "" {
		return errors.New("it is a link to the root")
	}
	from, err := u.open(path.Dir(target))
	if err != nil {
		return err
	}
	defer from.Close()
	return unix.Linkat(int(from.Fd()), path.Base(target), int(dir.Fd()), base, 0)
}

func (u *unpacker) file(dir *os.File, base string, h *tar.Header, content io.Reader) error {
	if err := u.content.take(h.Size); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	n, err := sparse.Copy(f, content, u.room.take)
	if err != nil {
		return err
	}
	if n != h.Size {
		return fmt.Errorf("it has %d bytes, want %d", n, h.Size)
	}
	return f.Close()
}

// dress gives a file its owner, mode, attributes and time.
func (u *unpacker) dress(dir *os.File, base, rel string, h *tar.Header) error {
	if h.Typeflag == tar.TypeLink {
		return nil // it has those of its other name
	}
	at := int(dir.Fd())
	if err := unix.Fchownat(at, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) && isDevice(h) {
			return nil
		}
		return fmt.Errorf("set its owner: %w", err)
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Fchmodat(at, base, uint32(h.Mode)&0o7777, 0); err != nil {
			return fmt.Errorf("set its mode: %w", err)
		}
	}
	if err := attributes(dir, base, h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		u.times[rel] = h.ModTime
		return nil
	}
	return setTime(at, base, h.ModTime)
}

const paxAttribute = "SCHILY.xattr."

// attributes sets those that a file has inside a session: capabilities, access lists, and what
// users set. Those of overlay file systems, and what only a host's security module knows, are left out.
func attributes(dir *os.File, base string, h *tar.Header) error {
	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, paxAttribute)
		known := name == "security.capability" || strings.HasPrefix(name, "system.posix_acl_") ||
			strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
		if !ok || !known || h.Typeflag == tar.TypeSymlink {
			continue
		}
		err := unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), base), name, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) && name != "security.capability" {
			continue
		}
		if err != nil {
			return fmt.Errorf("set its attribute %s: %w", name, err)
		}
	}
	return nil
}

func setTime(at int, base string, when time.Time) error {
	t := unix.NsecToTimespec(when.UnixNano())
	if err := unix.UtimesNanoAt(at, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its time: %w", err)
	}
	return nil
}

// finish sets the times of the directories that are there, the deepest first.
func (u *unpacker) finish() error {
	var all []string
	for rel := range u.times {
		all = append(all, rel)
	}
	slices.Sort(all)
	for _, rel := range slices.Backward(all) {
		d, err := u.open(rel)
		if err != nil {
			continue // a later layer has put something else there
		}
		err = setTime(int(d.Fd()), ".", u.times[rel])
		d.Close()
		if err != nil {
			return fmt.Errorf("unpack %q: %w", shortened(rel), err)
		}
	}
	return nil
}
