package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits of a group. Zero is no limit.
type Limits struct {
	Memory int64   // bytes, swap included
	CPUs   float64 // 1.5 is one and a half cores
	Pids   int64   // processes and threads
}

// Hierarchy is a directory of our own in each cgroup hierarchy that is needed.
// Its methods may be called from several goroutines and processes at a time.
type Hierarchy struct {
	layout layout
	parent string // below each mount point, "diapause/host-1"
}

// Open finds the hierarchies that this process sees and makes the directory
// parent (such as "diapause/host-1") in each of them, with the controllers that
// limits need switched on all the way down. It works relative to what is
// mounted, so that in a container the groups are below the container's own.
//
// Version 2 lets no group have both processes and controllers for its
// children. The top of the machine is exempt, the top that a container sees is
// not: there, and only there, Open moves the processes of that top group into a
// group "init" beside parent.
//
// An error says what is missing on this machine and what to do about it.
func Open(parent string) (*Hierarchy, error) {
	mounts, err := seen("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return openIn(mounts, parent)
}

// seen returns the cgroup mounts of a mountinfo file that are really there: not
// hidden below another mount.
func seen(mountinfo string) ([]mount, error) {
	f, err := os.Open(mountinfo)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	defer f.Close()
	mounts, err := parseMounts(f)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	mounts = slices.DeleteFunc(mounts, func(m mount) bool { return !m.visible() })
	for i, m := range mounts {
		if m.version != 2 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(m.point, "cgroup.controllers"))
		if err != nil {
			return nil, fmt.Errorf("find cgroups: %w", err)
		}
		mounts[i].controllers = strings.Fields(string(b))
	}
	return mounts, nil
}

// The numbers by which statfs knows a cgroup file system.
const (
	magicV1 = 0x27e0eb
	magicV2 = 0x63677270
)

func (m mount) visible() bool {
	var st syscall.Statfs_t
	if syscall.Statfs(m.point, &st) != nil {
		return false
	}
	return m.version == 1 && st.Type == magicV1 || m.version == 2 && st.Type == magicV2
}

func openIn(mounts []mount, parent string) (*Hierarchy, error) {
	if parent == "" || !filepath.IsLocal(parent) || filepath.Clean(parent) == "." {
		return nil, fmt.Errorf("open cgroups: %q is no name for a group", parent)
	}
	h := &Hierarchy{layout: arrange(mounts), parent: filepath.Clean(parent)}
	if _, ok := h.layout.serves[freezer]; !ok {
		return nil, errors.New("open cgroups: there is no freezer: mount -t cgroup2 none /sys/fs/cgroup")
	}
	for _, m := range h.layout.mounts {
		if err := h.prepare(m); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// prepare makes the parent directory in one hierarchy, and in version 2
// switches the controllers on that it has.
func (h *Hierarchy) prepare(m mount) error {
	if m.readOnly {
		return fmt.Errorf("open cgroups: %s is mounted read-only: make it writable", m.point)
	}
	dir := filepath.Join(m.point, h.parent)
	if err := makeAll(dir, m.point); err != nil {
		return fmt.Errorf("open cgroups: %w", err)
	}
	if m.version == 1 {
		return inheritCpuset(m, h.parent)
	}
	at := m.point
	for _, part := range append(strings.Split(h.parent, "/"), "") {
		if err := enable(at, m); err != nil {
			return err
		}
		at = filepath.Join(at, part)
	}
	return nil
}

// makeAll makes dir and what is missing above it. Another process that removes
// its empty parents at the same moment may take one away: then it begins again.
func makeAll(dir, top string) error {
	var err error
	for range 10 {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return fmt.Errorf("make %s below %s: %w", dir, top, err)
}

// enable hands the controllers that limits need on to the children of dir.
func enable(dir string, m mount) error {
	var want []string
	for _, c := range []string{memory, cpu, pids} {
		if slices.Contains(m.controllers, c) {
			want = append(want, "+"+c)
		}
	}
	if len(want) == 0 {
		return nil
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	err := write(control, strings.Join(want, " "))
	if errors.Is(err, syscall.EBUSY) && dir == m.point {
		if err = vacate(dir); err == nil {
			err = write(control, strings.Join(want, " "))
		}
	}
	if err != nil {
		return fmt.Errorf("open cgroups: switch on %s: %w", strings.Join(want, " "), err)
	}
	return nil
}

// vacate moves the processes of a container's top group into a group "init".
func vacate(top string) error {
	leaf := filepath.Join(top, "init")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	for range 10 {
		all, err := readPids(top)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			err := write(filepath.Join(leaf, "cgroup.procs"), fmt.Sprint(pid))
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("move process %d out of the container's top group: %w", pid, err)
			}
		}
	}
	return fmt.Errorf("empty cgroup %s: its processes keep starting others", top)
}

// inheritCpuset fills in the processors and memory nodes of each directory
// down to path, without which version 1 lets no process in. It matters only
// where cpuset is mounted together with a controller that is used.
func inheritCpuset(m mount, path string) error {
	if !slices.Contains(m.controllers, cpuset) {
		return nil
	}
	above := m.point
	for _, part := range strings.Split(path, "/") {
		dir := filepath.Join(above, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			b, err := os.ReadFile(filepath.Join(above, file))
			if err == nil {
				err = write(filepath.Join(dir, file), strings.TrimSpace(string(b)))
			}
			if err != nil {
				return fmt.Errorf("inherit %s: %w", file, err)
			}
		}
		above = dir
	}
	return nil
}

// Replace is Create, after what there is of that name was killed and removed. No other caller
// may use the group.
func (h *Hierarchy) Replace(ctx context.Context, name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if g, there := h.Group(name); there {
		if err := g.Kill(ctx); err != nil {
			return nil, err
		}
		if err := g.Remove(); err != nil {
			return nil, err
		}
	}
	return h.Create(name, l)
}

// Create makes a group with its limits in every hierarchy that is needed. A
// group of that name that exists already is an error that is fs.ErrExist; a
// limit whose controller this machine lacks is an error that names it. After
// an error nothing of the group is left.
func (h *Hierarchy) Create(name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := h.group(name)
	if err := g.supports(l); err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", name, err)
	}
	if _, there := h.Group(name); there {
		return nil, fmt.Errorf("create cgroup %s: %w", name, fs.ErrExist)
	}
	if err := g.make(); err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", name, errors.Join(err, g.Remove()))
	}
	if err := g.SetLimits(l); err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", name, errors.Join(err, g.Remove()))
	}
	return g, nil
}

func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\n") || strings.HasPrefix(name, "cgroup.") {
		return fmt.Errorf("create cgroup: %q is no name for a group", name)
	}
	return nil
}

// Group returns the group of that name. It reports false if no hierarchy has
// one. A group that a crash left in only some hierarchies is returned as well,
// so that it can be killed and removed.
func (h *Hierarchy) Group(name string) (*Group, bool) {
	g := h.group(name)
	if checkName(name) != nil {
		return nil, false
	}
	for i := range h.layout.mounts {
		if _, err := os.Stat(g.dir(i)); err == nil {
			return g, true
		}
	}
	return nil, false
}

// Names lists the groups, sorted.
func (h *Hierarchy) Names() ([]string, error) {
	var names []string
	for _, m := range h.layout.mounts {
		entries, err := os.ReadDir(filepath.Join(m.point, h.parent))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Remove removes the parent directories, as far up as they are empty. It leaves
// alone, without an error, what still has groups in it.
func (h *Hierarchy) Remove() error {
	var errs []error
	for _, m := range h.layout.mounts {
		for dir := h.parent; dir != "."; dir = filepath.Dir(dir) {
			err := os.Remove(filepath.Join(m.point, dir))
			if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
				break
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroups: %w", err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (h *Hierarchy) group(name string) *Group { return &Group{h: h, name: name} }

// write is one write to a file of the kernel's, which never is created.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
