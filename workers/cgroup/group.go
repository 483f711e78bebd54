package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Group is one group in every hierarchy that is needed.
type Group struct {
	h    *Hierarchy
	name string
}

// Name of the group, as Create got it.
func (g *Group) Name() string { return g.name }

// FreezerPath is the directory of the group in the hierarchy that freezes: what
// criu wants after --freeze-cgroup.
func (g *Group) FreezerPath() string { return g.dir(g.h.layout.serves[freezer]) }

func (g *Group) dir(i int) string {
	return filepath.Join(g.h.layout.mounts[i].point, g.h.parent, g.name)
}

// serving returns the directory and version of the hierarchy for a need.
func (g *Group) serving(need string) (dir string, version int, ok bool) {
	i, ok := g.h.layout.serves[need]
	if !ok {
		return "", 0, false
	}
	return g.dir(i), g.h.layout.mounts[i].version, true
}

func (g *Group) make() error {
	for i, m := range g.h.layout.mounts {
		err := os.Mkdir(g.dir(i), 0o755)
		if errors.Is(err, fs.ErrNotExist) { // the parent was removed since Open
			if err = g.h.prepare(m); err == nil {
				err = os.Mkdir(g.dir(i), 0o755)
			}
		}
		if err == nil && m.version == 1 {
			err = inheritCpuset(m, filepath.Join(g.h.parent, g.name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Add puts a process, with all its threads, into the group in every hierarchy;
// 0 is the calling process. Into a frozen group it goes as well, and freezes. A
// process that is gone is an error that is syscall.ESRCH.
func (g *Group) Add(pid int) error {
	for i := range g.h.layout.mounts {
		if err := g.addTo(i, pid); err != nil {
			return err
		}
	}
	return nil
}

// Take is Add for a process that leaves another group of ours, with the hierarchy that
// freezes as the last: if the caller is killed in between, a kill of that group finds it.
func (g *Group) Take(pid int) error {
	last := g.h.layout.serves[freezer]
	for i := range g.h.layout.mounts {
		if i == last {
			continue
		}
		if err := g.addTo(i, pid); err != nil {
			return err
		}
	}
	return g.addTo(last, pid)
}

// addTo puts a process into the group in one hierarchy.
func (g *Group) addTo(i, pid int) error {
	if err := write(filepath.Join(g.dir(i), "cgroup.procs"), strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("put process %d into cgroup %s (%s): %w", pid, g.name, g.h.layout.mounts[i], err)
	}
	return nil
}

// Pids lists the processes of the group and of groups that were made below it,
// by the ids that this process sees. It is an error if one of them has no id
// here, being in a pid namespace that is not below ours.
func (g *Group) Pids() ([]int, error) {
	all, err := pidsBelow(g.FreezerPath())
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup %s: %w", g.name, err)
	}
	return all, nil
}

func pidsBelow(dir string) ([]int, error) {
	all, err := readPids(dir)
	if err != nil {
		return nil, err
	}
	children, err := subdirs(dir)
	if err != nil {
		return nil, err
	}
	for _, c := range children {
		below, err := pidsBelow(c)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

func readPids(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, syscall.ENODEV) { // removed between open and read
		return nil, fmt.Errorf("read %s: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return parsePids(b)
}

func parsePids(b []byte) ([]int, error) {
	var all []int
	for _, field := range bytes.Fields(b) {
		pid, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, fmt.Errorf("cgroup.procs holds %q", field)
		}
		if pid == 0 {
			return nil, errors.New("it holds a process of a foreign pid namespace")
		}
		all = append(all, pid)
	}
	return all, nil
}

func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, nil
}

// removeWait is how long Remove waits for a group whose last process is on its
// way out.
const removeWait = 5 * time.Second

// Remove removes the group, and groups that were made below it, from every
// hierarchy. The group must have no process left: kill first. Removing a group
// that isn't there is no error.
func (g *Group) Remove() error {
	var errs []error
	for i := range g.h.layout.mounts {
		if err := removeTree(g.dir(i), time.Now().Add(removeWait)); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", g.name, err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes dir from the leaves up. The files in it are the kernel's
// and go with their directory.
func removeTree(dir string, deadline time.Time) error {
	for {
		children, err := subdirs(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, c := range children {
			if err := removeTree(c, deadline); err != nil {
				return err
			}
		}
		err = os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		if held, _ := readPids(dir); len(held) > 0 {
			return fmt.Errorf("%w: it still has processes %v", err, held)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
