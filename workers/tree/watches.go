package tree

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Watch is one thing that an inotify or fanotify descriptor of the tree watches.
type Watch struct {
	PID, Num int    // of the descriptor
	Link     string // what kind of descriptor it is
	Kind     string // of file system: "overlay", "tmpfs"; empty if the session sees none of that device
	Path     string // in the session, set only where Named is
	Named    bool   // CRIU needs the path, for the file system gives it no handle to find the file by
	Symlink  bool   // the file is a symbolic link; known only where Path is
	Number   string // of the watch within its inotify
	Mask     uint64 // of the events, and the options
	Whole    bool   // all of a file system is watched, not one file of it
	dev, ino uint64
}

// searchTime is how long Watches looks for the paths of what is watched.
const searchTime = 3 * time.Second

// Watches lists what the inotify and fanotify descriptors of the processes
// watch. The kernel knows a watched file by device and inode only. Most file
// systems let CRIU find it by that; an overlay and those of the kernel's own
// (/proc) don't, and there CRIU must be told a path to look below
// (--irmap-scan-path), which is in Path: found by a search of at most three
// seconds in the session's files, beginning where its processes work. It is
// empty if the search didn't find it. For files (not directories) of an overlay
// it finds only those that are on one mounted with xino=on; CRIU does likewise.
func (o *Opened) Watches(ctx context.Context, pids []int) ([]Watch, error) {
	if o != nil && o.watched {
		return o.watches, nil
	}
	var all []Watch
	for _, pid := range pids {
		some, err := o.watchesOf(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	o.name(ctx, all)
	if o != nil {
		o.watches, o.watched = all, true
	}
	return all, nil
}

// WatchesAgain lists what the processes watch, which stand still now, as Watches does. What
// before has a path for isn't searched again, if the path still leads there.
func (o *Opened) WatchesAgain(ctx context.Context, pids []int, before []Watch) ([]Watch, error) {
	known := map[[2]uint64]Watch{}
	for _, w := range before {
		if w.Named && w.Path != "" {
			known[[2]uint64{w.dev, w.ino}] = w
		}
	}
	var all []Watch
	for _, pid := range pids {
		some, err := o.watchesOf(pid)
		if err != nil {
			return nil, err
		}
		for _, w := range some {
			if old, ok := known[[2]uint64{w.dev, w.ino}]; ok && old.there() {
				w.Path, w.Symlink = old.Path, old.Symlink
			}
			all = append(all, w)
		}
	}
	if slices.ContainsFunc(all, Watch.Lost) {
		o.name(ctx, all)
	}
	return all, nil
}

// there reports whether the path of the watch leads to what is watched.
func (w Watch) there() bool {
	var st syscall.Stat_t
	return syscall.Lstat(rootOf(w.PID)+w.Path, &st) == nil && fileID(&st) == [2]uint64{w.dev, w.ino}
}

// Lost reports whether CRIU needs a path to what is watched and there is none.
func (w Watch) Lost() bool { return w.Named && w.Path == "" }

func (o *Opened) watchesOf(pid int) ([]Watch, error) {
	fds, err := o.FDs(pid)
	if err != nil {
		return nil, err
	}
	var all []Watch
	for _, fd := range fds {
		if fd.Link != "anon_inode:inotify" && fd.Link != "anon_inode:[fanotify]" {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd.Num))
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("read watches of process %d: %w", pid, err)
		}
		for line := range strings.Lines(string(b)) {
			if w, ok := parseWatch(line); ok {
				w.PID, w.Num, w.Link = pid, fd.Num, fd.Link
				all = append(all, w)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	kinds, err := fileSystems(pid)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Kind = kinds[all[i].dev]
		all[i].Named = !all[i].Whole && !handles(all[i].Kind)
	}
	return all, nil
}

// parseWatch reads a line of fdinfo:
//
//	inotify wd:1 ino:a sdev:2b mask:2 ignored_mask:0 fhandle-bytes:20 …
//	fanotify ino:a sdev:29 mflags:0 mask:20 …
//	fanotify sdev:2e mflags:0 mask:20 …
//
// Marks of a mount ("fanotify mnt_id:44") need no file to be found.
func parseWatch(line string) (Watch, bool) {
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[0] != "inotify" && fields[0] != "fanotify" {
		return Watch{}, false
	}
	value := map[string]uint64{}
	number := ""
	for _, f := range fields[1:] {
		key, hex, _ := strings.Cut(f, ":")
		if key == "wd" {
			number = hex
		}
		if n, err := strconv.ParseUint(hex, 16, 64); err == nil {
			value[key] = n
		}
	}
	dev, ok := value["sdev"]
	ino, one := value["ino"]
	return Watch{Number: number, dev: dev, ino: ino, Whole: !one, Mask: value["mask"]}, ok
}

// handles reports whether CRIU can find a file of that kind of file system by
// the handle that the kernel gives.
func handles(kind string) bool {
	switch kind {
	case "", "overlay", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "fuse":
		return false
	}
	return true
}

// fileSystems maps the devices that a process sees mounted, as fdinfo writes
// them, to their kind.
func fileSystems(pid int) (map[uint64]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil && !gone(err) && err != syscall.EINVAL {
		return nil, fmt.Errorf("read mounts of process %d: %w", pid, err)
	}
	kinds := map[uint64]string{}
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) < 3 || len(tail) < 1 {
			continue
		}
		var major, minor uint64
		if _, err := fmt.Sscanf(head[2], "%d:%d", &major, &minor); err == nil {
			kinds[device(major, minor)] = tail[0]
		}
	}
	return kinds, nil
}

// device is the number of a device as fdinfo writes it.
func device(major, minor uint64) uint64 { return major<<20 | minor }

// fileID turns what stat says into device and inode as fdinfo has them.
func fileID(st *syscall.Stat_t) [2]uint64 {
	major := st.Dev>>8&0xfff | st.Dev>>32&^0xfff
	minor := st.Dev&0xff | st.Dev>>12&^0xff
	return [2]uint64{device(major, minor&0xfffff), st.Ino}
}

// name fills in the paths of the watches that need one. It looks near the
// watchers first, for half of the time, and then everywhere.
func (o *Opened) name(ctx context.Context, all []Watch) {
	ctx, stop := context.WithTimeout(ctx, searchTime)
	defer stop()
	s := search{wanted: map[[2]uint64][]*Watch{}, on: map[uint64]bool{}, seen: map[string]bool{}}
	var holders []int
	for i := range all {
		if w := &all[i]; w.Lost() {
			s.wanted[[2]uint64{w.dev, w.ino}] = append(s.wanted[[2]uint64{w.dev, w.ino}], w)
			s.on[w.dev] = true
			if !slices.Contains(holders, w.PID) {
				holders = append(holders, w.PID)
			}
		}
	}
	for _, pid := range holders {
		s.shallow(ctx, rootOf(pid), usual)
	}
	near, done := context.WithTimeout(ctx, searchTime/2)
	defer done()
	for _, pid := range holders {
		s.below(near, rootOf(pid), o.workplaces(pid))
	}
	for _, pid := range holders {
		s.below(ctx, rootOf(pid), usual)
	}
}

// usual are the directories below which most of what is watched is.
var usual = []string{"/", "/home", "/root", "/srv", "/opt", "/workspace", "/tmp", "/etc", "/var", "/usr/share", "/usr/local"}

func rootOf(pid int) string { return fmt.Sprintf("/proc/%d/root", pid) }

// workplaces are the directories that a process works in or has files open in.
func (o *Opened) workplaces(pid int) []string {
	var places []string
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && cwd != "/" {
		places = append(places, cwd)
	}
	fds, _ := o.FDs(pid)
	for _, fd := range fds {
		dir := filepath.Dir(fd.Link)
		if strings.HasPrefix(dir, "/") && dir != "/" && !strings.HasPrefix(dir, "/dev") && !slices.Contains(places, dir) {
			places = append(places, dir)
		}
	}
	return places
}

// search goes through the files of a session and stops when all that is wanted
// has been found.
type search struct {
	wanted map[[2]uint64][]*Watch
	on     map[uint64]bool // the devices of what is wanted
	seen   map[string]bool
}

// below looks at directories (in a process's root, top) and, level by level, at
// all below them that is on the devices that matter.
func (s *search) below(ctx context.Context, top string, level []string) {
	for _, dir := range level {
		s.look(top, dir)
	}
	for len(level) > 0 {
		var next []string
		for _, dir := range level {
			if len(s.wanted) == 0 || ctx.Err() != nil {
				return
			}
			next = append(next, s.list(top, dir)...)
		}
		level = next
	}
}

// shallow looks at directories and what is in each, but not below: browsers and
// desktops watch /tmp, /etc/xdg, /usr/share/applications, and a search of all that
// is below the directories where they have files open takes longer than there is.
func (s *search) shallow(ctx context.Context, top string, dirs []string) {
	for _, dir := range dirs {
		if len(s.wanted) == 0 || ctx.Err() != nil {
			return
		}
		s.look(top, dir)
		s.list(top, dir)
		delete(s.seen, top+dir)
	}
}

// list looks at the entries of a directory and returns the directories among
// them.
func (s *search) list(top, dir string) []string {
	if s.seen[top+dir] {
		return nil
	}
	s.seen[top+dir] = true
	entries, err := os.ReadDir(top + dir)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if s.look(top, path) && e.Type() == fs.ModeDir {
			dirs = append(dirs, path)
		}
	}
	return dirs
}

// look notes a path if it is wanted, and reports whether it is on a device that
// matters.
func (s *search) look(top, path string) bool {
	var st syscall.Stat_t
	if syscall.Lstat(top+path, &st) != nil {
		return false
	}
	id := fileID(&st)
	for _, w := range s.wanted[id] {
		w.Path, w.Symlink = path, st.Mode&syscall.S_IFMT == syscall.S_IFLNK
	}
	delete(s.wanted, id)
	return s.on[id[0]]
}
