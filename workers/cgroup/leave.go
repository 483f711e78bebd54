package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Where gives the directories of the groups that a process is in, in every hierarchy that is needed,
// for Leave. A process that is gone is an error that is fs.ErrNotExist or syscall.ESRCH.
func (h *Hierarchy) Where(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("find the cgroups of process %d: %w", pid, err)
	}
	var dirs []string
	for _, m := range h.layout.mounts {
		path, ok := groupIn(string(b), m)
		if !ok {
			return nil, fmt.Errorf("find the cgroups of process %d: it is in none of %s", pid, m)
		}
		dirs = append(dirs, filepath.Join(m.point, path))
	}
	return dirs, nil
}

// groupIn finds the path of a hierarchy in a /proc/PID/cgroup.
func groupIn(text string, m mount) (path string, ok bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		names := strings.Split(parts[1], ",")
		is := m.version == 2 && parts[0] == "0"
		if m.version == 1 {
			is = len(m.controllers) > 0 && slices.Contains(names, m.controllers[0])
		}
		if is {
			return parts[2], true
		}
	}
	return "", false
}

// Leave puts all processes of the group into the groups of these directories, which Where gave, and
// returns when none is left. Into a group that is gone they can't be put: they go to the top of its
// hierarchy.
func (g *Group) Leave(dirs []string) error {
	for range 100 {
		left, err := g.Pids()
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			if err := g.h.put(pid, dirs); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("put process %d back from cgroup %s: %w", pid, g.name, err)
			}
		}
	}
	return fmt.Errorf("empty cgroup %s: its processes keep starting others", g.name)
}

// put has a process join a group of each hierarchy, or its top where that group is gone.
func (h *Hierarchy) put(pid int, dirs []string) error {
	for i, m := range h.layout.mounts {
		dir := m.point
		if i < len(dirs) && isBelow(dirs[i], m.point) {
			if _, err := os.Stat(dirs[i]); err == nil {
				dir = dirs[i]
			}
		}
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// isBelow reports whether a path is another or below it.
func isBelow(path, top string) bool {
	rel, err := filepath.Rel(top, path)
	return err == nil && filepath.IsLocal(rel)
}
