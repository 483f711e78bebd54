package adopted

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Facts are all that Judge judges a tree by.
type Facts struct {
	Root     Process   // the first process of the tree
	Tree     []Process // all of it, the first one included
	Parent   Process   // of Root, which is outside of the tree; PID 0 if the kernel is
	Host     map[string]string
	Asking   []int // processes of Diapause, which no tree may have in it
	Program  string
	Blockers []driver.Blocker  // what CRIU can't capture, as package preflight says
	Warnings []schemas.Warning // and what it wouldn't bring back
}

// Process is what is known of one process.
type Process struct {
	PID, Parent, Group, Session int
	Terminal                    bool // it has a controlling terminal
	Comm                        string
	State                       byte // as /proc has it
	Kernel                      bool // it is a thread of the kernel
	Diapause                    bool // it runs the program that looks
	User                        uint32
	Start                       uint64            // in ticks since the boot
	Spaces                      map[string]string // its namespaces, by kind
	Root                        string            // its root directory
	Groups                      []string          // its cgroups
}

// spaces are the kinds of namespaces, but for that of the clocks: CRIU gives each tree that it
// restores one.
var spaces = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// errGone says that a process has ended.
var errGone = errors.New("it has ended")

// Look reads what /proc says of a process, all that it has started, and its parent. asking are
// processes that must not be among these.
func Look(pid int, asking ...int) (Facts, error) {
	f := Facts{Asking: asking}
	var err error
	if f.Root, err = lookAt(pid); err != nil {
		return f, fmt.Errorf("look at process %d: %w", pid, err)
	}
	if f.Host, err = spacesOf("self"); err != nil {
		return f, fmt.Errorf("look at the host's namespaces: %w", err)
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	f.Program = strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	if f.Root.Parent > 0 {
		if f.Parent, err = statOf(f.Root.Parent); err != nil && !errors.Is(err, errGone) {
			return f, fmt.Errorf("look at process %d, the parent of %d: %w", f.Root.Parent, pid, err)
		}
	}
	all, err := Descendants(pid)
	if err != nil {
		return f, err
	}
	for _, id := range append([]int{pid}, all...) {
		p, err := lookAt(id)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return f, fmt.Errorf("look at process %d: %w", id, err)
		}
		f.Tree = append(f.Tree, p)
	}
	return f, nil
}

// Descendants lists what a process has started, and those in turn.
func Descendants(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := statOf(id); err == nil {
			children[p.Parent] = append(children[p.Parent], id)
		}
	}
	var all []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all, nil
}

// lookAt reads what there is to know of one process.
func lookAt(pid int) (Process, error) {
	p, err := statOf(pid)
	if err != nil || p.Kernel || p.State == 'Z' || pid == 1 { // of these no more is needed
		return p, err
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return p, orGone(err)
	}
	p.User = st.Uid
	if p.Spaces, err = spacesOf(strconv.Itoa(pid)); err != nil {
		return p, orGone(err)
	}
	if p.Root, err = os.Readlink(dir + "/root"); err != nil {
		return p, orGone(err)
	}
	b, err := os.ReadFile(dir + "/cgroup")
	if err != nil {
		return p, orGone(err)
	}
	p.Groups = groupsOf(string(b))
	p.Diapause = isOurs(dir)
	return p, nil
}

// orGone gives errGone for what the kernel says of a process that has ended.
func orGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return errGone
	}
	return err
}

// statOf reads /proc/PID/stat.
func statOf(pid int) (Process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, orGone(err)
	}
	p, err := parseStat(string(b))
	if err != nil {
		return p, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	return p, nil
}

// kernelThread is the kernel's own flag of its threads, in the ninth field of stat.
const kernelThread = 0x200000

// parseStat reads a line of /proc/PID/stat. The name in it is in parentheses, and may have any
// characters.
func parseStat(line string) (p Process, err error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return p, fmt.Errorf("line %q is not of the known form", line)
	}
	p.Comm = line[open+1 : end]
	fields := strings.Fields(line[end+1:])
	const needed = 20 // the time of its start is the last one that is read
	if len(fields) < needed {
		return p, fmt.Errorf("line %q is not of the known form", line)
	}
	p.State = fields[0][0]
	var flags, terminal int
	for _, number := range []struct {
		text string
		to   *int
	}{
		{strings.TrimSpace(line[:open]), &p.PID},
		{fields[1], &p.Parent}, {fields[2], &p.Group}, {fields[3], &p.Session}, {fields[4], &terminal}, {fields[6], &flags},
	} {
		if *number.to, err = strconv.Atoi(number.text); err != nil {
			return p, err
		}
	}
	p.Terminal, p.Kernel = terminal != 0, flags&kernelThread != 0
	p.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return p, err
}

// spacesOf gives the namespaces of a process, by their kinds.
func spacesOf(pid string) (map[string]string, error) {
	links := map[string]string{}
	for _, kind := range spaces {
		link, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
		if errors.Is(err, fs.ErrNotExist) && kind == "cgroup" && pid == "self" {
			continue // a kernel without
		}
		if err != nil {
			return nil, err
		}
		links[kind] = link
	}
	return links, nil
}

// groupsOf gives the paths in a /proc/PID/cgroup, each once.
func groupsOf(text string) (paths []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && !slices.Contains(paths, parts[2]) {
			paths = append(paths, parts[2])
		}
	}
	return paths
}

// isOurs reports whether a process runs the program that this process runs.
func isOurs(dir string) bool {
	var its, ours unix.Stat_t
	return unix.Stat(dir+"/exe", &its) == nil && unix.Stat("/proc/self/exe", &ours) == nil &&
		its.Dev == ours.Dev && its.Ino == ours.Ino
}

// MachineBoot tells one boot of this machine from another.
func MachineBoot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read which boot of the machine this is: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
