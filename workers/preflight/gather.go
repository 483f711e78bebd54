package preflight

import (
	"context"
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

// spaces are the kinds of namespaces, as /proc/PID/ns names them.
var spaces = []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

// gather looks at the tree.
func gather(ctx context.Context, pids []int, o Options) (Facts, error) {
	f := Facts{Mounts: map[int]bool{}, GhostLimit: o.GhostLimit, External: o.External, Lacks: o.Lacks, Init: o.Init}
	if f.External == nil {
		f.External = func(string) bool { return false }
	}
	files := lookers{opened: o.Opened, known: map[fileKey]File{}}
	var err error
	if f.Spaces, err = spacesOf(o.Init); err != nil {
		return Facts{}, fmt.Errorf("look at process %d, the session's first one: %w", o.Init, err)
	}
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return Facts{}, err
		}
		p, err := look(pid, &files)
		if gone(err) {
			continue
		}
		if err != nil {
			return Facts{}, fmt.Errorf("look at process %d: %w", pid, err)
		}
		f.Processes = append(f.Processes, p)
	}
	if err := f.gatherMounts(); err != nil {
		return Facts{}, err
	}
	if f.hasSockets() {
		if f.Unix, err = unixSockets(o.Init); err != nil {
			return Facts{}, fmt.Errorf("list unix sockets: %w", err)
		}
	}
	if f.SystemV, err = systemV(o.Init); err != nil {
		return Facts{}, fmt.Errorf("list System V objects: %w", err)
	}
	gatherShared(&f)
	gatherKeys(&f)
	gatherPolicies(&f)
	f.dropClosed()
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/root/dev/pts", o.Init), &st) == nil {
		f.Terminals = st.Dev
	}
	f.Connections, err = o.Opened.Connections(pids)
	return f, err
}

// hasSockets reports whether any process has one open: those that wait in a queue need one.
func (f *Facts) hasSockets() bool {
	return slices.ContainsFunc(f.Processes, func(p Process) bool {
		return slices.ContainsFunc(p.Files, func(f File) bool { return f.Socket != nil })
	})
}

// gone reports whether err says that a process or a file of it has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func spacesOf(pid int) (map[string]string, error) {
	links := map[string]string{}
	for _, kind := range spaces {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if errors.Is(err, fs.ErrNotExist) && kind == "time" { // kernels before 5.6
			continue
		}
		if err != nil {
			return nil, err
		}
		links[kind] = link
	}
	return links, nil
}

// look gathers what there is to know about one process.
func look(pid int, files *lookers) (Process, error) {
	p := Process{PID: pid, Inside: pid}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, err
	}
	if err := p.parseStatus(string(status)); err != nil {
		return p, err
	}
	if p.State == 'Z' { // it has nothing any more
		return p, nil
	}
	p.Limits = readableLimits(pid)
	p.Clocks, p.Full = wallClockTimers(pid), full(pid)
	if p.Session == p.Inside {
		p.Nice = groupNice(pid)
	}
	p.Terminal = hasTerminal(pid)
	if p.Spaces, err = spacesOf(pid); err != nil {
		return p, err
	}
	p.gatherThreads()
	if p.Root, err = os.Readlink(fmt.Sprintf("/proc/%d/root", pid)); err != nil {
		return p, err
	}
	if p.Files, err = files.of(pid); err != nil {
		return p, err
	}
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) == nil {
		p.Crowded = crowded(limit.Cur, p.Files)
	}
	p.Mappings, err = mappingsOf(pid)
	return p, err
}

// parseStatus reads /proc/PID/status.
func (p *Process) parseStatus(text string) error {
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		var err error
		switch key {
		case "Name":
			p.Comm = strings.TrimSpace(rest)
		case "State":
			p.State = fields[0][0]
		case "Threads":
			p.Threads, err = strconv.Atoi(fields[0])
		case "NSpid":
			p.Inside, err = strconv.Atoi(fields[len(fields)-1])
		case "PPid":
			p.Parent, err = strconv.Atoi(fields[0])
		case "NSsid":
			p.Session, err = strconv.Atoi(fields[len(fields)-1])
		case "Cpus_allowed":
			p.CPUs = fields[0]
		case "Uid":
			p.User, err = strconv.ParseUint(fields[0], 10, 32)
		case "NoNewPrivs":
			p.Confined = fields[0] == "1"
		case "Seccomp":
			p.Free = fields[0] == "0"
		case "CapEff":
			caps, _ := strconv.ParseUint(fields[0], 16, 64)
			p.Admin = caps&adminBit != 0
		case "TracerPid":
			p.Tracer, err = nameOf(fields[0])
		}
		if err != nil {
			return fmt.Errorf("read status: line %q: %w", line, err)
		}
	}
	return nil
}

// nameOf gives the name of a process for a person; empty for 0.
func nameOf(pid string) (string, error) {
	if pid == "0" {
		return "", nil
	}
	comm, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "a process that has just ended", nil
	}
	return fmt.Sprintf("%s (pid %s on the host)", strings.TrimSpace(string(comm)), pid), nil
}

// readableLimits does what CRIU does for each process, and what the kernel
// refuses for those of other users without CAP_SYS_RESOURCE.
func readableLimits(pid int) bool {
	var old unix.Rlimit
	return !errors.Is(unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &old), unix.EPERM)
}

// spaceNeeded is what CRIU maps into a process to capture it, and some more, in bytes.
const spaceNeeded = 1 << 20

// full reports whether a process's address space can't grow by spaceNeeded, as far as that can
// be known.
func full(pid int) bool {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_AS, nil, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return false
	}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	pages, _, _ := strings.Cut(string(b), " ")
	used, err := strconv.ParseUint(pages, 10, 64)
	return err == nil && used*uint64(os.Getpagesize())+spaceNeeded > limit.Cur
}

// filesNeeded is how many descriptors CRIU opens in a process at a time, and some more.
const filesNeeded = 4

// crowded reports whether a process can't open filesNeeded descriptors, whose numbers are below
// its limit, besides those that it has.
func crowded(limit uint64, files []File) bool {
	below := uint64(0)
	for i := range files {
		if uint64(files[i].Num) < limit {
			below++
		}
	}
	return below+filesNeeded > limit
}

// hasTerminal reports whether a process has a controlling terminal, which the seventh
// field of its stat names.
func hasTerminal(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	if i := strings.LastIndex(string(b), ") "); i >= 0 {
		rest = string(b)[i+2:]
	}
	fields := strings.Fields(rest)
	return len(fields) > 4 && fields[4] != "0"
}

// gatherMounts notes the mounts of all mount namespaces of the tree. If no
// process sees all of one, because all have called chroot, nothing is known.
func (f *Facts) gatherMounts() error {
	whole := map[string]bool{} // namespace → seen by one that sees all of it
	for _, p := range f.Processes {
		space := p.Spaces["mnt"]
		if p.State == 'Z' || whole[space] {
			continue
		}
		seen, err := f.addMounts(p.PID)
		if err != nil {
			return fmt.Errorf("read mounts of process %d: %w", p.PID, err)
		}
		whole[space] = seen && p.Root == "/"
	}
	for _, all := range whole {
		if !all {
			f.Mounts = nil
		}
	}
	return nil
}

// addMounts notes the mounts that a process sees, if it hasn't ended meanwhile.
func (f *Facts) addMounts(pid int) (seen bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if gone(err) || errors.Is(err, syscall.EINVAL) {
		return false, nil
	}
	for line := range strings.Lines(string(b)) {
		id, _, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(id); err == nil {
			f.Mounts[n] = true
		}
	}
	return len(b) > 0, err
}

// dropClosed forgets the unix sockets that were closed between the look at a
// process and the kernel's list. What is still open and not in that list belongs
// to another network.
func (f *Facts) dropClosed() {
	for i := range f.Processes {
		p := &f.Processes[i]
		for k := range p.Files {
			s := p.Files[k].Socket
			if s == nil || s.Domain != unix.AF_UNIX {
				continue
			}
			if _, listed := f.Unix[s.Inode]; listed {
				continue
			}
			link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.PID, p.Files[k].Num))
			if link != p.Files[k].Link {
				p.Files[k].Socket = nil
			}
		}
	}
}

// withDescendants adds the processes that those of the list have started.
func withDescendants(pids []int) []int {
	all := slices.Clone(pids)
	for i := 0; i < len(all); i++ {
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", all[i]))
		for _, t := range threads {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", all[i], t.Name()))
			for _, field := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(all, pid) {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}
