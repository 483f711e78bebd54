package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FD is one open file of a process.
type FD struct {
	PID  int
	Num  int
	Link string // what /proc says it is: "/etc/passwd", "socket:[4711]", "anon_inode:[eventfd]"
}

// Via is a path by which the file can be looked at: stat and, for files that
// have a name, open.
func (f FD) Via() string { return fmt.Sprintf("/proc/%d/fd/%d", f.PID, f.Num) }

// Inode is the number in the links of sockets and pipes, "socket:[4711]", if
// the link is of that kind.
func (f FD) Inode(kind string) (uint64, bool) {
	rest, ok := strings.CutPrefix(f.Link, kind+":[")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	return n, err == nil
}

// FDs lists the open files of a process, by number: none if it is gone.
func FDs(pid int) ([]FD, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list open files of process %d: %w", pid, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !gone(err) {
		return nil, fmt.Errorf("list open files of process %d: %w", pid, err)
	}
	all := make([]FD, 0, len(names))
	buf := make([]byte, unix.PathMax)
	for _, name := range names {
		num, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read open file %d of process %d: %w", num, pid, err)
		}
		all = append(all, FD{PID: pid, Num: num, Link: string(buf[:n])})
	}
	slices.SortFunc(all, func(a, b FD) int { return cmp.Compare(a.Num, b.Num) })
	return all, nil
}

// Mapping is one mapping of a process that has a name.
type Mapping struct {
	PID        int
	Start, End uint64
	Path       string // "/usr/lib/libc.so.6", "/memfd:x (deleted)", "[stack]", "anon_inode:[io_uring]"
	device     string // "fd:01", which says what mappings are of one file
	inode      string
}

// Via is a path by which the mapped file can be looked at and opened, by a
// process that may (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE).
func (m Mapping) Via() string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", m.PID, m.Start, m.End)
}

// Named reports whether something other than memory of its own is mapped: the
// kernel's own mappings ("[stack]") aren't.
func (m Mapping) Named() bool { return m.Path != "" && m.Path[0] != '[' }

// Mappings lists the mappings of a process that are of a file or a thing of the
// kernel's: none if it is gone. Mappings of one file are listed once.
func Mappings(pid int) ([]Mapping, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list mappings of process %d: %w", pid, err)
	}
	var all []Mapping
	type file struct{ device, inode, path string }
	seen := map[file]bool{}
	for line := range bytes.Lines(b) {
		m, ok := parseMapping(string(line))
		if !ok || !m.Named() || seen[file{m.device, m.inode, m.Path}] {
			continue
		}
		seen[file{m.device, m.inode, m.Path}] = true
		m.PID = pid
		all = append(all, m)
	}
	return all, nil
}

// parseMapping reads a line of /proc/PID/maps:
//
//	7f0a1c000000-7f0a1c021000 r-xp 00000000 fd:01 131 /usr/lib/a name
func parseMapping(line string) (Mapping, bool) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
	if len(fields) < 6 {
		return Mapping{}, false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if !ok || err1 != nil || err2 != nil {
		return Mapping{}, false
	}
	path := strings.ReplaceAll(strings.TrimLeft(fields[5], " "), `\012`, "\n")
	return Mapping{Start: start, End: end, Path: path, device: fields[3], inode: fields[4]}, true
}

// gone reports whether err is that of a process or file that has ended since it
// was listed.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
