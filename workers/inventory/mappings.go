package inventory

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mappings notes what is where in a process's memory. Neighbours that are alike count as one:
// the kernel joins and splits them as it likes.
func (c *collector) mappings(l *look) {
	var last mapping
	flush := func() {
		if last.end == 0 {
			return
		}
		o := Object{l.Inner, "mapping " + strconv.FormatUint(last.start, 16)}
		c.objects[o] = facts{
			{"mapping's end", strconv.FormatUint(last.end, 16)}, {"mapping's permissions", last.mode},
			{"mapped file", strings.TrimSpace(named(last.of) + " " + last.at())},
		}
		if last.number != "" {
			c.note(o, aspectNumber, last.number)
		}
	}
	for line := range strings.Lines(c.read(l.PID, "maps")) {
		m, ok := parseMapping(line)
		if ok && m.path != "" {
			l.Mappings = append(l.Mappings, Mapping{Start: m.start, End: m.end, Shared: strings.HasSuffix(m.mode, "s"), Path: m.path})
		}
		switch {
		case !ok || strings.HasPrefix(m.of, "[vvar") || m.of == "[vsyscall]": // the kernel's own
		case last.end == m.start && last.mode == m.mode && last.of == m.of && (!m.isFile() || last.offset+last.end-last.start == m.offset):
			last.end = m.end
		default:
			flush()
			last = m
			last.number = c.mappedNumber(l, m)
		}
	}
	flush()
}

// mappedNumber gives the inode number of a mapped file as it is compared: once for all mappings
// of it.
func (c *collector) mappedNumber(l *look, m mapping) string {
	if !m.isFile() {
		return ""
	}
	return c.mapped.of(strconv.FormatUint(l.root, 16)+" "+m.id+" "+m.of, func() string {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/map_files/%x-%x", l.PID, m.start, m.end), &st) != nil {
			return ""
		}
		return c.numbers(&st, l.root)
	})
}

type mapping struct {
	start, end, offset uint64
	mode               string
	path, of           string // as the kernel says it, and as it is compared
	id                 string // of the file, as the kernel says it
	number             string // of the file, as it is compared
}

func (m mapping) isFile() bool { return strings.HasPrefix(m.of, "/") }

func (m mapping) at() string {
	if !m.isFile() {
		return ""
	}
	return "at " + strconv.FormatUint(m.offset, 16)
}

// parseMapping reads a line of /proc/PID/maps.
func parseMapping(line string) (m mapping, ok bool) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
	if len(f) < 6 {
		return m, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	for _, n := range []struct {
		text string
		to   *uint64
	}{{from, &m.start}, {to, &m.end}, {f[2], &m.offset}} {
		var err error
		if *n.to, err = strconv.ParseUint(n.text, 16, 64); err != nil {
			return m, false
		}
	}
	// criu makes shared memory without a name as a file in memory.
	m.mode, m.id, m.path = f[1], f[3]+" "+f[4], strings.TrimLeft(f[5], " ")
	m.of = strings.Replace(m.path, "/memfd:/dev/zero", "/dev/zero", 1)
	if kind, _, ok := strings.Cut(m.of, ":["); ok { // a ring of a socket, whose number is the kernel's own
		m.of = kind
	}
	return m, true
}
