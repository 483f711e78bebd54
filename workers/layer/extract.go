package layer

import (
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
	"github.com/diapause/diapause/workers/sparse"
)

// Source gives the entries of a verified image. *image.Reader is one.
type Source interface {
	Entries() []image.Entry
	Open(name string) (io.ReadCloser, error)
}

// Extract puts the entries of an image below the name as into a directory, and gives the
// directory itself the attributes of as. What is there already and isn't a directory is an
// error. alone says that nothing else can change the directory until Extract has returned:
// a source that wants them is then told the stamps of the files.
func Extract(ctx context.Context, source Source, as string, root *os.File, alone bool) error {
	x := &Extraction{Source: source, Root: root, As: as}
	if to, ok := source.(Restamped); ok && alone {
		x.fresh = &fresh{to: to, stamps: &Stamps{places: map[uint64]place{}}}
	}
	for _, e := range source.Entries() {
		if _, ok := below(as, e.Name); !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := x.Extract(e); err != nil {
			return fmt.Errorf("restore %s: %w", e.Name, err)
		}
	}
	if err := Fill(ctx, source, x); err != nil {
		return err
	}
	return x.fresh.tell(ctx)
}

// below gives a name as it is below another, "" if it is that. All are below none.
func below(as, name string) (rel string, ok bool) {
	if as == "" {
		return name, name != ""
	}
	if name == as {
		return "", true
	}
	return strings.CutPrefix(name, as+"/")
}

// Extraction puts entries of an image below a directory, one by one; Fill ends it. Images are verified
// before; even so no entry can reach outside it, by its name or by way of a
// symlink that another entry made.
type Extraction struct {
	Source Source
	Root   *os.File
	As     string // below which the entries are named; all are below ""
	// Looks, if given, is the directory that Root will be merged with: directories that are
	// made on the way to an entry have the owner and mode that they have there.
	Looks *os.File

	dirs   []dated // whose times are set when all is in them
	fresh  *fresh  // nil if no stamps are wanted
	late   []*lateFile
	beside []image.Target // what Fill writes elsewhere
}

type dated struct {
	name  string
	mtime int64
}

// Extract makes one entry. The one named As is Root itself.
func (x *Extraction) Extract(e image.Entry) error {
	rel, ok := below(x.As, e.Name)
	if !ok {
		return fmt.Errorf("the image has it in another part than %s", x.As)
	}
	if rel == "" {
		return x.rootItself(e)
	}
	if err := checkName(rel); err != nil {
		return err
	}
	dir, err := x.parent(path.Dir(rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(rel)
	if ok, err := x.later(dir, rel, e); ok || err != nil {
		return err
	}
	if err := x.make(dir, base, e); err != nil {
		return err
	}
	if e.Type == image.TypeHardlink {
		return x.fresh.linked(dir, base, e.Link) // it has the looks of the other name
	}
	if e.Type == image.TypeDir {
		x.dirs = append(x.dirs, dated{rel, e.MTime})
	}
	if err := dress(dir, base, e); err != nil || e.Type != image.TypeFile {
		return err
	}
	return x.fresh.made(dir, base, e)
}

func (x *Extraction) rootItself(e image.Entry) error {
	if e.Type != image.TypeDir {
		return errors.New("the image has a root that is no directory")
	}
	x.dirs = append(x.dirs, dated{".", e.MTime})
	return dress(x.Root, ".", e)
}

func checkName(rel string) error {
	for element := range strings.SplitSeq(rel, "/") {
		if element == "" || element == "." || element == ".." || strings.ContainsRune(element, 0) {
			return fmt.Errorf("the image has a name that leads elsewhere: %q", rel)
		}
	}
	return nil
}

// Beneath opens a file below a directory that is reached by no symlink.
func Beneath(dir *os.File, rel string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(dir.Fd()), rel, &unix.OpenHow{
			Flags:   unix.O_CLOEXEC | uint64(flags),
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		if err == unix.EINTR || err == unix.EAGAIN { // something was renamed meanwhile
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: rel, Err: err}
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
}

func (x *Extraction) openDir(rel string) (*os.File, error) {
	return Beneath(x.Root, rel, unix.O_RDONLY|unix.O_DIRECTORY)
}

// parent opens a directory, which it makes if it isn't there.
func (x *Extraction) parent(rel string) (*os.File, error) {
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

func (x *Extraction) copyLooks(rel string, above *os.File, base string) error {
	if x.Looks == nil {
		return nil
	}
	f, err := Beneath(x.Looks, rel, unix.O_RDONLY|unix.O_NONBLOCK)
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

func (x *Extraction) make(dir *os.File, base string, e image.Entry) error {
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

func (x *Extraction) file(dir *os.File, base string, e image.Entry) error {
	f, err := createAt(dir, base)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := x.Source.Open(e.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := sparse.Copy(f, r, nil)
	if err != nil {
		return err
	}
	if n != e.Size {
		return fmt.Errorf("the image has %d bytes of it, want %d", n, e.Size)
	}
	return f.Close()
}

func createAt(dir *os.File, base string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), base), nil
}

func (x *Extraction) link(dir *os.File, base string, e image.Entry) error {
	target, ok := below(x.As, e.Link)
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

// Dress gives a directory the looks that an entry tells, and no other attributes.
func Dress(dir *os.File, e image.Entry) error {
	has, err := readXattrs(dir, ".")
	if err != nil {
		return err
	}
	for name := range has {
		if _, stays := e.Xattrs[name]; stays {
			continue
		}
		if err := unix.Lremovexattr(byDescriptor(dir, "."), name); err != nil {
			return fmt.Errorf("remove its attribute %s: %w", name, err)
		}
	}
	return dress(dir, ".", e)
}

func setTime(at int, base string, mtime int64) error {
	when := unix.NsecToTimespec(mtime)
	if err := unix.UtimesNanoAt(at, base, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its time: %w", err)
	}
	return nil
}

// Finish sets the times of the directories, the deepest first, when all is in them.
func (x *Extraction) Finish() error {
	for _, d := range slices.Backward(x.dirs) {
		if err := setTime(int(x.Root.Fd()), d.name, d.mtime); err != nil {
			return fmt.Errorf("restore %s: %w", path.Join(x.As, d.name), err)
		}
	}
	return nil
}

// Clear removes what is in a directory, and leaves the directory itself.
func Clear(dir *os.File) error { return ClearBut(dir, "") }

// ClearBut does the same, but for one name in it.
func ClearBut(dir *os.File, but string) error {
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
		if name == but {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("empty a directory: %w", err)
		}
	}
	return nil
}
