package tree

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// File is a regular file that the tree has open or mapped.
type File struct {
	Path    string // in the session
	Via     string // opens that very file from here, also if its name is gone, while the holder has it
	Mode    uint32 // as stat gives it
	Dev     uint64
	Ino     uint64
	Size    int64  // bytes
	Nlink   uint64 // names that it has; 0: it lives on only while it is open
	Deleted bool   // Path is no longer a name of it
	Mapped  bool   // by at least one process; otherwise only open
	FS      int64  // the number of its kind of file system, as statfs gives it
}

// Overlay is the FS of a file that comes from an overlay.
const Overlay = 0x794c7630

// The FS of memory that has the form of a file: memfd, shared anonymous memory
// and such. It belongs to a process, not to its file system.
const (
	tmpfs     = 0x01021994
	hugetlbfs = 0x958458f6
	secretmem = 0x5345434d
)

// Files lists the regular files that the processes have open or mapped, their
// programs and libraries among them, each once for each name. Memory in the form
// of a file (memfd and the like) is left out. root is where the session's root is
// for the process that reads (what /proc/PID/root links to): "/" or empty after
// a pivot_root in a mount namespace of its own.
func (o *Opened) Files(pids []int, root string) ([]File, error) {
	c := collection{root: strings.TrimSuffix(root, "/"), at: map[fileKey]int{}}
	for _, pid := range pids {
		maps, err := Mappings(pid)
		if err != nil {
			return nil, err
		}
		for _, m := range maps {
			if err := c.add(m.Path, m.Via(), true); err != nil {
				return nil, fmt.Errorf("look at mapping %x of process %d: %w", m.Start, pid, err)
			}
		}
		fds, err := o.FDs(pid)
		if err != nil {
			return nil, err
		}
		for _, f := range fds {
			if err := c.add(f.Link, f.Via(), false); err != nil {
				return nil, fmt.Errorf("look at open file %d of process %d: %w", f.Num, pid, err)
			}
		}
	}
	return c.files, nil
}

type fileKey struct {
	dev, ino uint64
	path     string
}

type collection struct {
	root  string
	files []File
	at    map[fileKey]int // index into files
}

// add takes one open or mapped thing in if it is a regular file with a name.
func (c *collection) add(link, via string, mapped bool) error {
	if !strings.HasPrefix(link, "/") {
		return nil
	}
	var st syscall.Stat_t
	var sf syscall.Statfs_t
	if err := ignoring(retry(func() error { return syscall.Stat(via, &st) })); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return err
	}
	if err := retry(func() error { return syscall.Statfs(via, &sf) }); err != nil {
		return ignoring(err)
	}
	f := File{Via: via, Mode: st.Mode, Dev: st.Dev, Ino: st.Ino, Size: st.Size, Nlink: uint64(st.Nlink), Mapped: mapped, FS: sf.Type}
	f.Path, f.Deleted = c.inside(link, f)
	if isMemory(link, f) {
		return nil
	}
	key := fileKey{f.Dev, f.Ino, f.Path}
	if i, ok := c.at[key]; ok {
		c.files[i].Mapped = c.files[i].Mapped || mapped
		return nil
	}
	c.at[key] = len(c.files)
	c.files = append(c.files, f)
	return nil
}

// inside turns a link into the path in the session. The kernel marks a name that
// is gone by " (deleted)", which may be part of a name as well: what is still
// there by the whole name isn't deleted.
func (c *collection) inside(link string, f File) (path string, deleted bool) {
	path, deleted = strings.CutSuffix(link, " (deleted)")
	if deleted {
		var st syscall.Stat_t
		top := strings.Join(strings.SplitN(f.Via, "/", 4)[:3], "/") // "/proc/PID"
		if syscall.Lstat(top+"/root"+c.strip(link), &st) == nil && st.Dev == f.Dev && st.Ino == f.Ino {
			return c.strip(link), false
		}
	}
	return c.strip(path), deleted
}

func (c *collection) strip(path string) string {
	rest, ok := strings.CutPrefix(path, c.root)
	if ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// isMemory reports whether a file without a name is memory in the form of one.
func isMemory(link string, f File) bool {
	if f.Nlink > 0 {
		return false
	}
	switch f.FS {
	case secretmem, hugetlbfs:
		return true
	case tmpfs:
		return strings.HasPrefix(link, "/memfd:") || strings.HasPrefix(link, "/SYSV") || strings.HasPrefix(link, "/dev/zero ")
	}
	return strings.HasPrefix(link, "/[aio]")
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// ignoring makes nothing of an error that says that the thing is gone, or that
// its file system can't be reached: what can't be looked at isn't listed.
func ignoring(err error) error {
	switch {
	case gone(err), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ENOTCONN):
		return nil
	}
	return err
}
