package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Room is how many more bytes of memory processes of the group may take before
// a limit of it or of a group above it is reached, what can be reclaimed
// counted as free; ok is false where there is no such limit. It looks as far up as this
// process sees.
func (g *Group) Room() (bytes int64, ok bool, err error) {
	i, ok := g.h.layout.serves[memory]
	if !ok {
		return 0, false, nil
	}
	return roomFrom(g.h.layout.mounts[i], g.dir(i))
}

// OwnRoom is the same for the group that this process is in, even if another program made it.
func (h *Hierarchy) OwnRoom() (bytes int64, ok bool, err error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false, fmt.Errorf("find the cgroup of this process: %w", err)
	}
	return h.roomOf(string(own))
}

// roomOf reads a process's cgroup file, as cgroups(7) has it: a line for each
// hierarchy, "number:controllers:path", version 2 being number 0 without controllers.
// A path that this process doesn't see says nothing.
func (h *Hierarchy) roomOf(own string) (bytes int64, ok bool, err error) {
	i, ok := h.layout.serves[memory]
	if !ok {
		return 0, false, nil
	}
	m := h.layout.mounts[i]
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || m.version == 2 && parts[0] != "0" || m.version == 1 && !slices.Contains(strings.Split(parts[1], ","), memory) {
			continue
		}
		dir := filepath.Join(m.point, parts[2])
		if _, err := os.Stat(dir); err != nil {
			return 0, false, nil
		}
		return roomFrom(m, dir)
	}
	return 0, false, nil
}

// roomFrom looks from one directory of a hierarchy up to its top.
func roomFrom(m mount, dir string) (bytes int64, ok bool, err error) {
	bytes = math.MaxInt64
	for ; ; dir = filepath.Dir(dir) {
		free, limited, err := roomIn(dir, m.version)
		if err != nil {
			return 0, false, fmt.Errorf("read the memory limit of %s: %w", dir, err)
		}
		if limited {
			bytes = min(bytes, free)
		}
		if dir == m.point || len(dir) <= len(m.point) {
			break
		}
	}
	return bytes, bytes != math.MaxInt64, nil
}

// unlimited is above every limit that someone has set: version 1 writes "none" as
// a number near the largest one.
const unlimited = 1 << 62

func roomIn(dir string, version int) (free int64, limited bool, err error) {
	limitFile, usedFile := "memory.max", "memory.current"
	if version == 1 {
		limitFile, usedFile = "memory.limit_in_bytes", "memory.usage_in_bytes"
	}
	limit, err := readBytes(filepath.Join(dir, limitFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && limit >= unlimited {
		return 0, false, nil // the top of the machine, or no limit
	}
	if err != nil {
		return 0, false, err
	}
	used, err := readBytes(filepath.Join(dir, usedFile))
	if err != nil {
		return 0, false, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, false, err
	}
	return max(limit-used+reclaimable(string(stat)), 0), true, nil
}

func readBytes(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(b))
	if text == "max" {
		return math.MaxInt64, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// reclaimable finds the bytes of cached files that were not used lately, of the
// group and those below it.
func reclaimable(stat string) int64 {
	var own, total int64
	for line := range strings.Lines(stat) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "inactive_file":
			own = n
		case "total_inactive_file": // version 1, where the other is the group's alone
			total = n
		}
	}
	return max(own, total)
}
