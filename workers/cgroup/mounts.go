package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// mount is one mounted cgroup hierarchy, as /proc/self/mountinfo has it.
type mount struct {
	point       string   // where it is mounted, as this process sees it
	version     int      // 1 or 2
	controllers []string // of version 1, by the mount; of version 2, by cgroup.controllers
	readOnly    bool
}

// The names of the controllers that a group may need. Freezing is a controller
// of version 1 and part of the core of version 2, where it always works.
const (
	freezer = "freezer"
	memory  = "memory"
	cpu     = "cpu"
	cpuacct = "cpuacct"
	pids    = "pids"
	cpuset  = "cpuset"
)

var knownControllers = []string{
	freezer, memory, cpu, cpuacct, pids, cpuset, "devices", "blkio", "net_cls", "net_prio", "perf_event", "hugetlb", "rdma", "misc",
}

// parseMounts reads the format of /proc/self/mountinfo and returns the cgroup
// mounts in it. Where a place was mounted over, only the last mount counts.
func parseMounts(r io.Reader) ([]mount, error) {
	var found []mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, kind, err := parseMount(lines.Text())
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(o mount) bool { return o.point == m.point })
		if kind == "cgroup" && len(m.controllers) > 0 || kind == "cgroup2" {
			found = append(found, m)
		}
	}
	return found, lines.Err()
}

// parseMount reads one line:
//
//	37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer
func parseMount(line string) (mount, string, error) {
	before, after, ok := strings.Cut(line, " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 6 || len(tail) < 2 {
		return mount{}, "", fmt.Errorf("mountinfo line %q is not of the known form", line)
	}
	super := ""
	if len(tail) > 2 {
		super = tail[2]
	}
	m := mount{point: unescape(head[4]), version: 2}
	options := strings.Split(super, ",")
	m.readOnly = slices.Contains(strings.Split(head[5], ","), "ro") || slices.Contains(options, "ro")
	if tail[0] == "cgroup" {
		m.version = 1
		for _, o := range options {
			if slices.Contains(knownControllers, o) {
				m.controllers = append(m.controllers, o)
			}
		}
	}
	return m, tail[0], nil
}

// unescape undoes the octal escapes (\040 for a space) of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// layout says which hierarchy serves which need.
type layout struct {
	mounts []mount        // those that are used, each once
	serves map[string]int // controller → index into mounts; a missing one is not served
}

// arrange chooses, for each need, the hierarchy that serves it: version 1 where
// that has the controller, since a controller belongs to one version at a time
// and a version 1 mount of it wins; else version 2. A mount that can be written
// is preferred over one that can't.
func arrange(mounts []mount) layout {
	l := layout{serves: map[string]int{}}
	for _, need := range []string{freezer, memory, cpu, cpuacct, pids} {
		best := -1
		for i, m := range mounts {
			if m.has(need) && (best < 0 || m.betterThan(mounts[best])) {
				best = i
			}
		}
		if best >= 0 {
			l.serves[need] = l.use(mounts[best])
		}
	}
	return l
}

func (l *layout) use(m mount) int {
	i := slices.IndexFunc(l.mounts, func(o mount) bool { return o.point == m.point })
	if i < 0 {
		l.mounts = append(l.mounts, m)
		i = len(l.mounts) - 1
	}
	return i
}

// has reports whether the hierarchy serves a need. Version 2 freezes and counts
// processor time in its core, without a controller.
func (m mount) has(need string) bool {
	if m.version == 2 && (need == freezer || need == cpuacct) {
		return true
	}
	return slices.Contains(m.controllers, need)
}

func (m mount) betterThan(o mount) bool {
	if m.version != o.version {
		return m.version < o.version
	}
	if m.readOnly != o.readOnly {
		return !m.readOnly
	}
	return len(m.point) < len(o.point)
}

func (m mount) String() string {
	if m.version == 2 {
		return fmt.Sprintf("v2 at %s (controllers: %s)", m.point, orNone(m.controllers))
	}
	return fmt.Sprintf("v1 %s at %s", strings.Join(m.controllers, ","), m.point)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
