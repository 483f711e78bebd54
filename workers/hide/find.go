package hide

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is what a hidden path is on the host.
type Kind string

// The kinds.
const (
	Dir  Kind = "dir"
	File Kind = "file" // or a socket, a device
	None Kind = "none" // it isn't there, but may be some day
)

// Path is one to hide.
type Path struct {
	Name string `json:"name"` // relative to the root, without symlinks
	Kind Kind   `json:"kind"`
}

// ErrWithin says that a root lies in what is to be hidden.
var ErrWithin = errors.New("it lies in what is hidden from sessions")

// Inside lists what is to be hidden in a root, of files and directories of the host. None lies
// in another. The error is ErrWithin if the root itself does.
func Inside(root string, hidden []string) ([]Path, error) {
	base, err := locate(root)
	if err != nil {
		return nil, fmt.Errorf("find the root %s: %w", root, err)
	}
	if base.kind == None {
		return nil, nil // who mounts it says so
	}
	var all []Path
	for _, name := range hidden {
		p, err := locate(name)
		if err != nil {
			return nil, fmt.Errorf("find %s, which is hidden from sessions: %w", name, err)
		}
		some, err := base.has(p)
		if err != nil {
			return nil, fmt.Errorf("hide %s in %s: %w", name, root, err)
		}
		all = append(all, some...)
	}
	return outermost(all), nil
}

// location is where a path leads to.
type location struct {
	path  string // absolute, without symlinks
	kind  Kind   // with None path is what is missing first
	mount uint64 // its mount, or that of the directory in which it is missing
}

func locate(name string) (location, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return location{}, err
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		l, err := locateThere(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			rest = filepath.Join(filepath.Base(at), rest)
			continue
		}
		if err != nil || rest == "" {
			return l, err
		}
		if l.kind != Dir {
			return l, nil // a file in the place of a directory: nothing can be below it
		}
		first, _, _ := strings.Cut(rest, "/")
		l.path, l.kind = filepath.Join(l.path, first), None
		if _, err := os.Lstat(l.path); err == nil {
			l.kind = File // a symlink that leads nowhere yet
		}
		return l, nil
	}
}

func locateThere(name string) (location, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return location{}, err
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, real, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE|unix.STATX_MNT_ID, &st); err != nil {
		return location{}, &fs.PathError{Op: "statx", Path: real, Err: err}
	}
	l := location{path: real, kind: File, mount: st.Mnt_id}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		l.kind = Dir
	}
	return l, nil
}

// has lists where a location is in the root l.
func (l location) has(p location) ([]Path, error) {
	if p.mount == l.mount {
		rel, where := under(l.path, p.path)
		switch where {
		case below:
			return []Path{{rel, p.kind}}, nil
		case above:
			return nil, ErrWithin
		}
		return nil, nil
	}
	var all []Path
	fromBase, there, err := sameFileSystem(l, p)
	if err != nil {
		return nil, err
	}
	if there {
		rel, where := under(fromBase[0], fromBase[1])
		if where == above && p.kind == Dir {
			return nil, ErrWithin
		}
		if where == below {
			all = append(all, Path{rel, p.kind})
		}
	}
	// What another file system is mounted over is seen in the root, where nothing is mounted.
	if rel, where := under(l.path, p.path); where == below {
		kind, err := shadowed(l.path, rel)
		if err != nil {
			return nil, err
		}
		if kind != None {
			all = append(all, Path{rel, kind})
		}
	}
	return all, nil
}

// shadowed says what a root has at rel below what is mounted there.
func shadowed(root, rel string) (Kind, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return None, fmt.Errorf("look below what is mounted in %s: %w", root, err)
	}
	defer unix.Close(fd)
	at, err := unix.Openat2(fd, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return None, nil // neither it nor a way to it
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return None, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return Dir, nil
	}
	return File, nil
}

// How one path lies to another.
const (
	beside = iota
	below
	above // or the same
)

// under says how a path lies to a directory, and which path below it that is.
func under(dir, path string) (rel string, where int) {
	if dir == path {
		return "", above
	}
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/"); ok {
		return rest, below
	}
	if strings.HasPrefix(dir, strings.TrimSuffix(path, "/")+"/") {
		return "", above
	}
	return "", beside
}

// outermost leaves out what lies in another one, and what is there twice.
func outermost(all []Path) []Path {
	slices.SortFunc(all, func(a, b Path) int { return strings.Compare(a.Name, b.Name) })
	var kept []Path
	for _, p := range all {
		if !slices.ContainsFunc(kept, func(k Path) bool { return p.Name == k.Name || strings.HasPrefix(p.Name, k.Name+"/") }) {
			kept = append(kept, p)
		}
	}
	return kept
}

// Covers reports whether a path, relative to the root, is hidden or lies in what is.
func Covers(hidden []Path, name string) bool {
	return slices.ContainsFunc(hidden, func(p Path) bool { return name == p.Name || strings.HasPrefix(name, p.Name+"/") })
}
