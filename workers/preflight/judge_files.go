package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// file judges one open file by what it is.
func (j *judge) file(p *Process, f *File) {
	switch {
	case j.External(f.Link) || f.slave() && f.Device == j.Terminals && j.External(f.inside()):
	case strings.HasPrefix(f.Link, "anon_inode:"):
		j.anonymous(p, f)
	case f.Type == unix.S_IFSOCK:
		j.socket(p, f)
	case f.Type == unix.S_IFIFO && f.Flags&unix.O_PATH != 0:
		j.block(p, what(f, "FIFO opened with O_PATH"), "CRIU takes it for an open one, and fails", "let the program close it")
	case f.Type == unix.S_IFIFO && strings.HasPrefix(f.Link, "pipe:["):
		j.pipe(p, f)
	case f.Type == unix.S_IFCHR || f.Type == unix.S_IFBLK:
		j.device(p, f)
	case f.Huge:
		j.block(p, what(f, strings.TrimSuffix(f.Link, deleted)+" of huge pages"), hugeWhy, hugeFix)
	case strings.HasPrefix(f.Link, "/secretmem"):
		j.block(p, what(f, "memfd_secret"), secretWhy, secretFix)
	case isMemory(f.Link):
	case f.Type == unix.S_IFDIR && processDir.MatchString(f.Link):
		j.block(p, what(f, f.Link), "CRIU can't open the /proc of a process before that process is there", "let the program close it")
	case strings.HasPrefix(f.Link, "/"):
		j.onMount(p, f)
		if f.Watched {
			j.block(p, what(f, "directory watched by F_NOTIFY"), "CRIU forgets such a watch, and the program would wait for ever", "let it use inotify instead")
		}
		j.ghost(p, what(f, strings.TrimSuffix(f.Link, deleted)), f.Link, f.Names, f.Bytes)
	case f.Type == unix.S_IFREG:
		j.namespaceFile(p, f)
	}
}

// processDir is the directory of a process that hasn't ended.
var processDir = regexp.MustCompile(`^/proc/\d+(/.*[^)])?$`)

const (
	deleted   = " (deleted)"
	hugeWhy   = "reserved huge pages (hugetlbfs) can't be brought back on each host"
	hugeFix   = "turn them off in the program (huge_pages=off for PostgreSQL, a setting in most others); transparent ones are captured"
	secretWhy = "memory of memfd_secret can't be read from outside, by design of the kernel"
	secretFix = "turn the use of secret memory off in the program"
)

func what(f *File, is string) string { return fmt.Sprintf("fd %d: %s", f.Num, is) }

// isMemory reports whether a link is that of memory in the form of a file.
func isMemory(link string) bool {
	for _, prefix := range []string{"/memfd:", "/SYSV", "/dev/zero (deleted)", "/[aio]"} {
		if strings.HasPrefix(link, prefix) {
			return true
		}
	}
	return false
}

// anonymous judges what has no file system. What isn't known here isn't known
// to CRIU either.
func (j *judge) anonymous(p *Process, f *File) {
	kind := strings.Trim(strings.TrimPrefix(f.Link, "anon_inode:"), "[]")
	switch kind {
	case "signalfd", "fanotify":
	case "eventpoll":
		if f.Polls {
			j.lost(p, f, "an epoll doesn't poll devices itself any more (EPIOCSPARAMS)")
		}
	case "eventfd":
		if j.lacks("eventfd") && f.Counts {
			j.withoutMend(p, f, "eventfd that is a semaphore", "brings it back as a counter, and the program would wait for ever")
		}
	case "timerfd":
		j.timer(p, f)
	case "inotify":
		if f.Unread > 0 {
			j.lost(p, f, "%d bytes of inotify events that aren't read yet are lost", f.Unread)
		}
	case "pidfd":
		j.pidfd(p, f)
	case "io_uring":
		j.block(p, what(f, "io_uring"), "CRIU can't capture the queues that it shares with the kernel", uringFix)
	case "perf_event":
		j.block(p, what(f, "perf event"), "the kernel's counters can't be captured", "end the profiler")
	case "userfaultfd":
		j.block(p, what(f, "userfaultfd"), "the page faults that it handles can't be captured", "turn it off in the program")
	default:
		if strings.HasPrefix(kind, "bpf") {
			j.block(p, what(f, kind), "what was loaded into the kernel by bpf isn't part of the program", "end the program that uses bpf")
			return
		}
		j.block(p, what(f, kind), "CRIU doesn't know how to capture that kind of file", "let the program close it, or turn the feature off that uses it")
	}
}

const uringFix = "turn io_uring off in the program (UV_USE_IO_URING=0 for node, a setting in most others)"

func (j *judge) pidfd(p *Process, f *File) {
	switch {
	case f.Flags&unix.O_EXCL != 0:
		j.block(p, what(f, "pidfd of a thread"), "CRIU captures pidfds of processes only", "turn the feature off that uses it")
	case f.Target >= 0 && !j.held.pids[f.Target] && !j.held.pids[f.Parent]:
		j.blockPair(p, f, "pidfd of a process outside the session", "that process isn't captured with it", "let the program close it")
	}
}

// pipe judges a pipe by who has the other end.
func (j *judge) pipe(p *Process, f *File) {
	if f.Flags&unix.O_DIRECT != 0 {
		j.block(p, what(f, "pipe of packets (O_DIRECT)"), "CRIU can't capture where one packet ends", "let the program use a socket pair instead")
		return
	}
	if f.Hangup || j.held.readers[f.Link] && j.held.writers[f.Link] {
		return
	}
	if j.held.passing {
		j.warn(p, schemas.WarnInFlight, fd(p, f), "fd %d: the other end of the pipe is held by no process of the session; "+
			"it is taken for one of the descriptors that wait in unix sockets here", f.Num)
		return
	}
	j.blockPair(p, f, f.Link, "the other end of the pipe is held by a process outside the session, and would be gone after a resume",
		"start the program with a file in its place, or from within the session")
}

// memoryDevices is the major number of null, zero, full, random and urandom.
const memoryDevices = 1

// autofs is the one device of major number 10 that CRIU opens again.
var autofs = [2]uint32{10, 235}

func (j *judge) device(p *Process, f *File) {
	number := [2]uint32{f.Major, f.Minor}
	switch {
	case f.Type == unix.S_IFCHR && (f.Major == memoryDevices || number == autofs):
		j.onMount(p, f)
	case number == [2]uint32{5, 0} || number == [2]uint32{5, 2}: // tty, ptmx
	case f.slave():
		j.terminal(p, f)
	case number == [2]uint32{10, 200}:
		j.block(p, what(f, f.Link), "a network tunnel is part of the host's network", "end the VPN or the emulator that uses it")
	default:
		j.block(p, what(f, f.Link), fmt.Sprintf("the state of a device (%d:%d) can't be captured", f.Major, f.Minor), deviceFix)
	}
}

const deviceFix = "let the program close the device, or start it without"

// terminal judges the inner end of a pseudo-terminal. One whose outer end has
// been closed is captured.
func (j *judge) terminal(p *Process, f *File) {
	if f.Line != 0 {
		j.block(p, what(f, fmt.Sprintf("%s with line discipline %d", f.Link, f.Line)), "CRIU captures terminals with the usual one only", "let the program set it back")
	}
	if f.Hangup || j.held.masters[terminal{f.Device, f.number()}] {
		return
	}
	j.blockPair(p, f, f.Link, "the terminal belongs to a process outside the session", "start the program from within the session, by attach or exec")
}

// onMount finds files that were opened before the session had its own mounts,
// or on a mount that is gone.
func (j *judge) onMount(p *Process, f *File) {
	if f.Mount != 0 && j.Mounts != nil && !j.Mounts[f.Mount] {
		j.block(p, what(f, f.Link), "it was opened on a mount that isn't one of the session's", "let the program close it and open it again by its path")
	}
}

// ghost finds files that have no name any more and are too large to go into
// the image.
func (j *judge) ghost(p *Process, what, link string, names uint64, bytes int64) {
	if names > 0 || !strings.HasSuffix(link, deleted) || j.GhostLimit == 0 || bytes <= j.GhostLimit {
		return
	}
	j.block(p, what, fmt.Sprintf("the file has been deleted while open and holds %d MiB, %d MiB is the limit", bytes>>20, j.GhostLimit>>20),
		"let the program close it, or keep it small")
}

// namespaceFile judges an open namespace, "net:[4026531840]".
func (j *judge) namespaceFile(p *Process, f *File) {
	kind, _, ok := strings.Cut(f.Link, ":[")
	switch {
	case !ok || !slices.Contains(spaces, kind):
		j.block(p, what(f, f.Link), "CRIU doesn't know how to capture that kind of file", "let the program close it")
	case kind != "mnt" && j.Spaces[kind] != f.Link:
		j.block(p, what(f, f.Link), "it is a "+kind+" namespace that isn't the session's", "let the program close it")
	}
}

// mapping judges one mapping.
func (j *judge) mapping(p *Process, m *Mapping) {
	what := fmt.Sprintf("mapping %x: %s", m.Start, strings.TrimSuffix(m.Path, deleted))
	zero := m.Type == unix.S_IFCHR && m.Major == memoryDevices && m.Minor == 5
	switch {
	case m.Path == "anon_inode:[io_uring]":
		j.block(p, what, "CRIU can't capture the queues that it shares with the kernel", uringFix)
	case m.Huge:
		j.block(p, what+" of huge pages", hugeWhy, hugeFix)
	case strings.HasPrefix(m.Path, "/secretmem"):
		j.block(p, what, secretWhy, secretFix)
	case strings.HasPrefix(m.Path, "socket:[") && j.packet(m.Path):
	case !strings.HasPrefix(m.Path, "/"):
		j.block(p, what, "CRIU can't capture a mapping of that kind", deviceFix)
	case m.Type == unix.S_IFCHR && !zero || m.Type == unix.S_IFBLK:
		j.block(p, what, fmt.Sprintf("the memory of a device (%d:%d) can't be captured", m.Major, m.Minor), deviceFix)
	case !isMemory(m.Path):
		j.ghost(p, what, m.Path, m.Names, m.Bytes)
	}
}

// packet reports whether a link is that of a packet socket of the tree, whose ring CRIU
// captures: empty.
func (j *judge) packet(link string) bool {
	for _, p := range j.processes {
		for i := range p.Files {
			if s := p.Files[i].Socket; p.Files[i].Link == link && s != nil && s.Domain == unix.AF_PACKET {
				return true
			}
		}
	}
	return false
}
