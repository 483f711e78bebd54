package inventory

import (
	"fmt"
	"strings"
)

// mappings notes what is where in a process's memory. Neighbours that are alike count as one:
// the kernel joins and splits them as it likes.
func (c *collector) mappings(pid int) error {
	var last mapping
	flush := func() {
		if last.end == 0 {
			return
		}
		o := Object{c.inner[pid], fmt.Sprintf("mapping %x", last.start)}
		c.note(o, "mapping's end", fmt.Sprintf("%x", last.end))
		c.note(o, "mapping's permissions", last.mode)
		c.note(o, "mapped file", strings.TrimSpace(fmt.Sprintf("%s %s", last.of, last.at())))
	}
	for line := range strings.Lines(proc(pid, "maps")) {
		m, ok := parseMapping(line)
		switch {
		case !ok || strings.HasPrefix(m.of, "[vvar") || m.of == "[vsyscall]": // the kernel's own
		case last.end == m.start && last.mode == m.mode && last.of == m.of && (!m.isFile() || last.offset+last.end-last.start == m.offset):
			last.end = m.end
		default:
			flush()
			last = m
		}
	}
	flush()
	return nil
}

type mapping struct {
	start, end, offset uint64
	mode, of           string
}

func (m mapping) isFile() bool { return strings.HasPrefix(m.of, "/") }

func (m mapping) at() string {
	if !m.isFile() {
		return ""
	}
	return fmt.Sprintf("at %x", m.offset)
}

// parseMapping reads a line of /proc/PID/maps.
func parseMapping(line string) (m mapping, ok bool) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
	if len(f) < 6 {
		return m, false
	}
	if _, err := fmt.Sscanf(f[0], "%x-%x", &m.start, &m.end); err != nil {
		return m, false
	}
	if _, err := fmt.Sscanf(f[2], "%x", &m.offset); err != nil {
		return m, false
	}
	// criu makes shared memory without a name as a file in memory.
	m.mode, m.of = f[1], strings.Replace(strings.TrimLeft(f[5], " "), "/memfd:/dev/zero", "/dev/zero", 1)
	if kind, _, ok := strings.Cut(m.of, ":["); ok { // a ring of a socket, whose number is the kernel's own
		m.of = kind
	}
	return m, true
}
