package preflight_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/tree"
	"golang.org/x/sys/unix"
)

// one is a session of one process that nothing is wrong with but what change
// does to it.
func one(change func(f *preflight.Facts, p *preflight.Process)) preflight.Facts {
	spaces := map[string]string{"net": "net:[1]", "pid": "pid:[2]", "mnt": "mnt:[3]", "uts": "uts:[4]"}
	own := map[string]string{"net": "net:[1]", "pid": "pid:[2]", "mnt": "mnt:[3]", "uts": "uts:[4]"}
	f := preflight.Facts{Spaces: spaces, Mounts: map[int]bool{7: true}, Terminals: 33, Unix: map[uint64]preflight.UnixSocket{}, GhostLimit: 1 << 20,
		External:  func(link string) bool { return link == "pipe:[99]" || link == "/dev/pts/9" || link == "socket:[99]" },
		Processes: []preflight.Process{{PID: 1007, Inside: 7, Comm: "prog", State: 'S', Threads: 1, Limits: true, Root: "/", Spaces: own}}}
	change(&f, &f.Processes[0])
	return f
}

// withFile is one with an open file, number 5.
func withFile(file preflight.File) preflight.Facts {
	file.Num = 5
	if file.TTY == 0 {
		file.TTY = -1
	}
	return one(func(_ *preflight.Facts, p *preflight.Process) { p.Files = []preflight.File{file} })
}

func withSocket(s preflight.Socket, all ...preflight.UnixSocket) preflight.Facts {
	f := withFile(preflight.File{Link: "socket:[50]", Type: unix.S_IFSOCK, Socket: &s})
	s.Inode = 50
	f.Processes[0].Files[0].Socket = &s
	for _, u := range all {
		f.Unix[u.Inode] = u
	}
	return f
}

func withMapping(m preflight.Mapping) preflight.Facts {
	return one(func(_ *preflight.Facts, p *preflight.Process) { p.Mappings = []preflight.Mapping{m} })
}

func withWatch(w tree.Watch) preflight.Facts {
	w.PID, w.Num, w.Link = 1007, 5, "anon_inode:inotify"
	return one(func(f *preflight.Facts, _ *preflight.Process) { f.Watches = []tree.Watch{w} })
}

func withConnection(c tree.Connection) preflight.Facts {
	c.PID, c.Local, c.Remote = 1007, netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2")
	return one(func(f *preflight.Facts, _ *preflight.Process) { f.Connections = []tree.Connection{c} })
}

type judgeCase struct {
	name    string
	facts   preflight.Facts
	blocker string // its What, or a part of it; empty: none
	warning string // or a part of it; empty: none
}

func runJudge(t *testing.T, cases []judgeCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			blockers, warnings := preflight.Judge(c.facts)
			if c.blocker == "" && len(blockers) > 0 {
				t.Errorf("blockers %v, want none", blockers)
			}
			if c.blocker != "" && (len(blockers) != 1 || !strings.Contains(blockers[0].What, c.blocker)) {
				t.Errorf("blockers %v, want one of %q", blockers, c.blocker)
			}
			if c.warning == "" && len(warnings) > 0 {
				t.Errorf("warnings %v, want none", warnings)
			}
			if c.warning != "" && !slices.ContainsFunc(warnings, func(w schemas.Warning) bool { return strings.Contains(w.Text, c.warning) }) {
				t.Errorf("warnings %v, want %q", warnings, c.warning)
			}
		})
	}
}

func TestJudgeProcesses(t *testing.T) {
	runJudge(t, []judgeCase{
		{name: "nothing", facts: one(func(*preflight.Facts, *preflight.Process) {})},
		{name: "traced", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Tracer = "gdb (pid 3)" }), blocker: "traced by gdb (pid 3)"},
		{name: "zombie", facts: one(func(_ *preflight.Facts, p *preflight.Process) { *p = preflight.Process{State: 'Z', Threads: 1} })},
		{name: "zombie with threads", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.State, p.Threads = 'Z', 2 }), blocker: "its first thread has ended"},
		{name: "limits", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Limits, p.User = false, 1000 }), blocker: "user 1000"},
		{name: "chroot", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Root = "/jail" })},
		{name: "chroot of the first", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Root, p.Inside = "/jail", 1 }), blocker: "its root is /jail"},
		{name: "net", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Spaces["net"] = "net:[9]" }), blocker: "a net namespace of its own (net:[9])"},
		{name: "mnt", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Spaces["mnt"] = "mnt:[9]" })},
	})
}

func TestJudgeFilesWithoutPath(t *testing.T) {
	runJudge(t, []judgeCase{
		{name: "eventfd", facts: withFile(preflight.File{Link: "anon_inode:[eventfd]"})},
		{name: "inotify", facts: withFile(preflight.File{Link: "anon_inode:inotify"})},
		{name: "io_uring", facts: withFile(preflight.File{Link: "anon_inode:[io_uring]"}), blocker: "fd 5: io_uring"},
		{name: "unheard of", facts: withFile(preflight.File{Link: "anon_inode:[new-thing]"}), blocker: "fd 5: new-thing"},
		{name: "bpf", facts: withFile(preflight.File{Link: "anon_inode:bpf-prog"}), blocker: "fd 5: bpf-prog"},
		{name: "pidfd", facts: withFile(preflight.File{Link: "anon_inode:[pidfd]", Target: 1007})},
		{name: "pidfd of the dead", facts: withFile(preflight.File{Link: "anon_inode:[pidfd]", Target: -1})},
		{name: "pidfd of a zombie", facts: withFile(preflight.File{Link: "anon_inode:[pidfd]", Target: 1008, Parent: 1007})},
		{name: "pidfd outside", facts: withFile(preflight.File{Link: "anon_inode:[pidfd]", Target: 3, Parent: 1}), blocker: "fd 5: pidfd of a process outside"},
		{name: "pidfd of a thread", facts: withFile(preflight.File{Link: "anon_inode:[pidfd]", Target: 1007, Flags: unix.O_EXCL}), blocker: "fd 5: pidfd of a thread"},
		{name: "pipe", facts: withFile(preflight.File{Link: "pipe:[8]", Type: unix.S_IFIFO, Flags: unix.O_WRONLY}), blocker: "fd 5: pipe:[8]"},
		{name: "pipe both ways", facts: withFile(preflight.File{Link: "pipe:[8]", Type: unix.S_IFIFO, Flags: unix.O_RDWR})},
		{name: "pipe closed", facts: withFile(preflight.File{Link: "pipe:[8]", Type: unix.S_IFIFO, Hangup: true})},
		{name: "pipe held", facts: withFile(preflight.File{Link: "pipe:[99]", Type: unix.S_IFIFO})},
		{name: "fifo", facts: withFile(preflight.File{Link: "/tmp/fifo", Type: unix.S_IFIFO, Mount: 7})},
	})
}

func TestJudgeDevices(t *testing.T) {
	runJudge(t, []judgeCase{
		{name: "null", facts: withFile(preflight.File{Link: "/dev/null", Type: unix.S_IFCHR, Major: 1, Minor: 3, Mount: 7})},
		{name: "null outside", facts: withFile(preflight.File{Link: "/dev/null", Type: unix.S_IFCHR, Major: 1, Minor: 3, Mount: 8}), blocker: "fd 5: /dev/null"},
		{name: "gpu", facts: withFile(preflight.File{Link: "/dev/dri/card0", Type: unix.S_IFCHR, Major: 226}), blocker: "fd 5: /dev/dri/card0"},
		{name: "disk", facts: withFile(preflight.File{Link: "/dev/sda", Type: unix.S_IFBLK, Major: 8}), blocker: "fd 5: /dev/sda"},
		{name: "tun", facts: withFile(preflight.File{Link: "/dev/net/tun", Type: unix.S_IFCHR, Major: 10, Minor: 200}), blocker: "fd 5: /dev/net/tun"},
		{name: "tty", facts: withFile(preflight.File{Link: "/dev/tty", Type: unix.S_IFCHR, Major: 5})},
		{name: "console", facts: withFile(preflight.File{Link: "/dev/console", Type: unix.S_IFCHR, Major: 5, Minor: 1}), blocker: "fd 5: /dev/console"},
		{name: "terminal", facts: withFile(preflight.File{Link: "/dev/pts/3", Type: unix.S_IFCHR, Major: 136, Minor: 3}), blocker: "fd 5: /dev/pts/3"},
		{name: "terminal held", facts: withFile(preflight.File{Link: "/dev/pts/9", Type: unix.S_IFCHR, Major: 136, Minor: 9})},
		{name: "terminal held, opened by another path", facts: withFile(preflight.File{Link: "/run/x/pts/9", Type: unix.S_IFCHR, Major: 136, Minor: 9, Device: 33})},
		{name: "terminal of another devpts", facts: withFile(preflight.File{Link: "/run/x/pts/9", Type: unix.S_IFCHR, Major: 136, Minor: 9, Device: 34}), blocker: "fd 5: /run/x/pts/9"},
		{name: "terminal closed", facts: withFile(preflight.File{Link: "/dev/pts/3", Type: unix.S_IFCHR, Major: 136, Minor: 3, Hangup: true})},
	})
}

func TestJudgeFilesAndMappings(t *testing.T) {
	runJudge(t, []judgeCase{
		{name: "file", facts: withFile(preflight.File{Link: "/etc/x", Type: unix.S_IFREG, Names: 1, Mount: 7})},
		{name: "file outside", facts: withFile(preflight.File{Link: "/etc/x", Type: unix.S_IFREG, Names: 1, Mount: 8}), blocker: "fd 5: /etc/x"},
		{name: "ghost", facts: withFile(preflight.File{Link: "/tmp/x (deleted)", Type: unix.S_IFREG, Bytes: 2 << 20, Mount: 7}), blocker: "fd 5: /tmp/x"},
		{name: "small ghost", facts: withFile(preflight.File{Link: "/tmp/x (deleted)", Type: unix.S_IFREG, Bytes: 1 << 20, Mount: 7})},
		{name: "ghost with another name", facts: withFile(preflight.File{Link: "/tmp/x (deleted)", Type: unix.S_IFREG, Names: 1, Bytes: 2 << 20, Mount: 7})},
		{name: "memfd", facts: withFile(preflight.File{Link: "/memfd:x (deleted)", Type: unix.S_IFREG, Bytes: 2 << 20, Mount: 1})},
		{name: "secret", facts: withFile(preflight.File{Link: "/secretmem (deleted)", Type: unix.S_IFREG}), blocker: "fd 5: memfd_secret"},
		{name: "own namespace", facts: withFile(preflight.File{Link: "net:[1]", Type: unix.S_IFREG})},
		{name: "other namespace", facts: withFile(preflight.File{Link: "net:[9]", Type: unix.S_IFREG}), blocker: "fd 5: net:[9]"},
		{name: "mapped file", facts: withMapping(mapping("/lib/x", unix.S_IFREG, 1, 0))},
		{name: "mapped ghost", facts: withMapping(mapping("/tmp/x (deleted)", unix.S_IFREG, 0, 2<<20)), blocker: "mapping abc000: /tmp/x"},
		{name: "mapped memory", facts: withMapping(mapping("/dev/zero (deleted)", unix.S_IFREG, 0, 2<<20))},
		{name: "mapped zero", facts: withMapping(preflight.Mapping{Path: "/dev/zero", Type: unix.S_IFCHR, Major: 1, Minor: 5})},
		{name: "mapped device", facts: withMapping(preflight.Mapping{Path: "/dev/dri/card0", Type: unix.S_IFCHR, Major: 226}), blocker: "/dev/dri/card0"},
		{name: "mapped ring", facts: withMapping(mapping("anon_inode:[perf_event]", 0, 0, 0)), blocker: "mapping abc000: anon_inode:[perf_event]"},
	})
}

func TestJudgeSockets(t *testing.T) {
	const stream, dgram = unix.SOCK_STREAM, unix.SOCK_DGRAM
	local := preflight.Socket{Domain: unix.AF_UNIX, Type: stream}
	runJudge(t, []judgeCase{
		{name: "tcp", facts: withSocket(preflight.Socket{Domain: unix.AF_INET6, Type: stream, Protocol: unix.IPPROTO_TCP})},
		{name: "mptcp", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: stream, Protocol: unix.IPPROTO_MPTCP}), blocker: "fd 5: MPTCP"},
		{name: "sctp", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: stream, Protocol: unix.IPPROTO_SCTP}), blocker: "protocol 132"},
		{name: "raw", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: unix.SOCK_RAW, Protocol: 89})},
		{name: "corked", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: dgram, Corked: true}), warning: "holds a datagram back"},
		{name: "can", facts: withSocket(preflight.Socket{Domain: unix.AF_CAN}), blocker: "fd 5: CAN bus socket"},
		{name: "family 77", facts: withSocket(preflight.Socket{Domain: 77}), blocker: "fd 5: family 77 socket"},
		{name: "netlink", facts: withSocket(preflight.Socket{Domain: unix.AF_NETLINK, Unread: true}), warning: "fd 5: a netlink socket has something to read"},
		{name: "unix inside", facts: withSocket(local, preflight.UnixSocket{Inode: 50, Peer: 50})},
		{name: "unix outside", facts: withSocket(local, preflight.UnixSocket{Inode: 50, Peer: 51}, preflight.UnixSocket{Inode: 51, Name: "/run/x"}), blocker: "connected to /run/x"},
		{name: "unix held", facts: withSocket(local, preflight.UnixSocket{Inode: 50, Peer: 99})},
		{name: "unix of another network", facts: withSocket(local), blocker: "of another network"},
		{name: "unix half closed", facts: withSocket(local, preflight.UnixSocket{Inode: 50, State: 1, Type: stream, Shutdown: 3})},
		{name: "unix not accepted", facts: withSocket(local, preflight.UnixSocket{Inode: 50, State: 1, Type: stream}), blocker: "hasn't been accepted"},
		{name: "unix waiting inside", facts: withSocket(local, preflight.UnixSocket{Inode: 50, State: 1, Type: stream, Waiting: []uint64{50}})},
		{name: "unix datagram alone", facts: withSocket(local, preflight.UnixSocket{Inode: 50, State: 1, Type: dgram})},
		{name: "unix given up", facts: withSocket(local, preflight.UnixSocket{Inode: 50, State: 10, Type: stream, Name: "/x", Waiting: []uint64{0}}), warning: "unix socket /x waits to be accepted"},
	})
}

func TestJudgeWatchesAndConnections(t *testing.T) {
	runJudge(t, []judgeCase{
		{name: "watch", facts: withWatch(tree.Watch{Kind: "ext4"})},
		{name: "watch found", facts: withWatch(tree.Watch{Kind: "overlay", Named: true, Path: "/x"})},
		{name: "watch lost", facts: withWatch(tree.Watch{Kind: "overlay", Named: true}), blocker: "fd 5: inotify of a file on overlay"},
		{name: "watch of nothing", facts: withWatch(tree.Watch{Named: true}), blocker: "on no file system of the session"},
		{name: "watch of all", facts: withWatch(tree.Watch{Whole: true}), blocker: "of a whole file system"},
		{name: "inside", facts: withConnection(tree.Connection{Inside: true})},
		{name: "outside", facts: withConnection(tree.Connection{}), warning: "prog (pid 7): the connection 10.0.0.1:1 to 10.0.0.2:2 will be closed"},
		{name: "inbound", facts: withConnection(tree.Connection{Inbound: true}), warning: "10.0.0.1:1 from 10.0.0.2:2 will be closed"},
		{name: "pending", facts: withConnection(tree.Connection{Pending: true, Inbound: true}), warning: "isn't accepted yet"},
	})
}

func mapping(path string, kind uint32, names uint64, bytes int64) preflight.Mapping {
	return preflight.Mapping{Start: 0xabc000, Path: path, Type: kind, Names: names, Bytes: bytes}
}

// TestJudgeFindsTheOtherEnd has the two ends in two processes.
func TestJudgeFindsTheOtherEnd(t *testing.T) {
	f := one(func(f *preflight.Facts, p *preflight.Process) {
		p.Files = []preflight.File{
			{Num: 1, Link: "pipe:[8]", Type: unix.S_IFIFO, Flags: unix.O_WRONLY, TTY: -1},
			{Num: 2, Link: "/dev/pts/3", Type: unix.S_IFCHR, Major: 136, Minor: 3, TTY: -1, Device: 44},
			{Num: 3, Link: "socket:[60]", Type: unix.S_IFSOCK, TTY: -1, Socket: &preflight.Socket{Inode: 60, Domain: unix.AF_UNIX}},
			{Num: 4, Link: "socket:[62]", Type: unix.S_IFSOCK, TTY: -1, Socket: &preflight.Socket{Inode: 62, Domain: unix.AF_UNIX}},
		}
		other := *p
		other.PID, other.Inside = 1008, 8
		other.Files = []preflight.File{
			{Num: 0, Link: "pipe:[8]", Type: unix.S_IFIFO, Flags: unix.O_RDONLY, TTY: -1},
			{Num: 5, Link: "/dev/pts/ptmx", Type: unix.S_IFCHR, Major: 5, Minor: 2, TTY: 3, Device: 44},
			{Num: 6, Link: "socket:[61]", Type: unix.S_IFSOCK, TTY: -1, Socket: &preflight.Socket{Inode: 61, Domain: unix.AF_UNIX}},
			{Num: 7, Link: "socket:[63]", Type: unix.S_IFSOCK, TTY: -1, Socket: &preflight.Socket{Inode: 63, Domain: unix.AF_UNIX}},
		}
		f.Processes = append(f.Processes, other)
		f.Unix[60], f.Unix[61] = preflight.UnixSocket{Inode: 60, Peer: 61}, preflight.UnixSocket{Inode: 61, Peer: 60}
		f.Unix[62] = preflight.UnixSocket{Inode: 62, State: 1, Type: unix.SOCK_STREAM}
		f.Unix[63] = preflight.UnixSocket{Inode: 63, State: 10, Type: unix.SOCK_STREAM, Waiting: []uint64{62}}
	})
	if blockers, warnings := preflight.Judge(f); len(blockers)+len(warnings) > 0 {
		t.Errorf("blockers %v, warnings %v, want none", blockers, warnings)
	}
	f.Processes[1].Files[1].Device = 45 // the same number in another devpts
	if blockers, _ := preflight.Judge(f); len(blockers) != 1 || blockers[0].What != "fd 2: /dev/pts/3" {
		t.Errorf("blockers %v, want the terminal", blockers)
	}
}

func TestJudgeNamesOnceWhatWasInherited(t *testing.T) {
	f := withFile(preflight.File{Link: "pipe:[8]", Type: unix.S_IFIFO})
	f.Processes = append(f.Processes, f.Processes[0])
	f.Processes[1].PID, f.Processes[1].Inside = 1008, 8
	if blockers, _ := preflight.Judge(f); len(blockers) != 1 || blockers[0].PID != 7 {
		t.Errorf("blockers %v, want one, of process 7", blockers)
	}
	f = withFile(preflight.File{Link: "anon_inode:[io_uring]"})
	f.Processes = append(f.Processes, f.Processes[0])
	if blockers, _ := preflight.Judge(f); len(blockers) != 2 {
		t.Errorf("blockers %v, want one of each process", blockers)
	}
}

// The other end of a pipe may wait in the queue of a unix socket, where no process has it.
func TestJudgeDescriptorsInFlight(t *testing.T) {
	half := preflight.File{Num: 5, Link: "pipe:[50]", Type: unix.S_IFIFO, TTY: -1}
	queue := preflight.File{Num: 6, Link: "socket:[51]", Type: unix.S_IFSOCK, TTY: -1, Passing: 1,
		Socket: &preflight.Socket{Domain: unix.AF_UNIX, Type: unix.SOCK_DGRAM, Inode: 51}}
	with := func(files ...preflight.File) preflight.Facts {
		return one(func(f *preflight.Facts, p *preflight.Process) {
			f.Unix[51] = preflight.UnixSocket{Inode: 51, Type: unix.SOCK_DGRAM}
			p.Files = files
		})
	}
	none := queue
	none.Passing = 0
	runJudge(t, []judgeCase{
		{name: "descriptors wait", facts: with(half, queue), warning: "the other end of the pipe"},
		{name: "none wait", facts: with(half, none), blocker: "pipe:[50]"},
	})
}

// TestJudgeThreadsAndSharing has what threads have apart, and processes share.
func TestJudgeThreadsAndSharing(t *testing.T) {
	apart := func(thread preflight.Thread) preflight.Facts {
		thread.TID, thread.Inside, thread.Name = 1009, 9, "worker"
		return one(func(_ *preflight.Facts, p *preflight.Process) { p.Threads, p.Apart = 2, []preflight.Thread{thread} })
	}
	shared := func(kind, parent int) preflight.Facts {
		return one(func(f *preflight.Facts, p *preflight.Process) {
			other := *p
			other.PID, other.Inside, other.Parent, other.Comm = 1008, 8, parent, "child"
			f.Processes = append(f.Processes, other)
			f.Shared = []preflight.Shared{{Kind: kind, A: 1008, B: 1007}}
		})
	}
	const memory, files, places, signals = 1, 2, 3, 4
	runJudge(t, []judgeCase{
		{name: "files", facts: apart(preflight.Thread{Files: true}), blocker: "thread 9 (worker) has open files of its own"},
		{name: "elsewhere", facts: apart(preflight.Thread{Places: true, Elsewhere: true}), blocker: "has a working directory, root or umask of its own"},
		{name: "in the same place", facts: apart(preflight.Thread{Places: true}), warning: "thread 9 (worker) can change its working directory for itself"},
		{name: "network", facts: apart(preflight.Thread{Space: "net"}), blocker: "is in a net namespace of its own"},
		{name: "memory", facts: shared(memory, 1007), blocker: "it shares its memory with prog (pid 7)"},
		{name: "working directory", facts: shared(places, 1007), blocker: "it shares its working directory with prog (pid 7)"},
		{name: "signal handlers", facts: shared(signals, 1007), blocker: "it shares its signal handlers with"},
		{name: "files of its parent", facts: shared(files, 1007)},
		{name: "files of another", facts: shared(files, 1), blocker: "it shares its table of open files with"},
	})
}

// TestJudgeWhatIsRare has what everyday programs don't use.
func TestJudgeWhatIsRare(t *testing.T) {
	const path, char = unix.O_PATH, unix.S_IFCHR
	session := func(change func(f *preflight.Facts)) preflight.Facts {
		return one(func(f *preflight.Facts, _ *preflight.Process) { change(f) })
	}
	runJudge(t, []judgeCase{
		{name: "socket's file", facts: withFile(preflight.File{Link: "/run/x", Type: unix.S_IFSOCK, Flags: path}), blocker: "fd 5: the file of a unix socket"},
		{name: "FIFO", facts: withFile(preflight.File{Link: "/run/x", Type: unix.S_IFIFO, Flags: path, Mount: 7}), blocker: "fd 5: FIFO opened with O_PATH"},
		{name: "discipline", facts: withFile(preflight.File{Link: "/dev/pts/3", Type: char, Major: 136, Minor: 3, Hangup: true, Line: 27}), blocker: "line discipline 27"},
		{name: "epoll", facts: withFile(preflight.File{Link: "anon_inode:[eventpoll]"})},
		{name: "busy epoll", facts: withFile(preflight.File{Link: "anon_inode:[eventpoll]", Polls: true}), warning: "fd 5: an epoll doesn't poll devices itself"},
		{name: "kernel crypto", facts: withSocket(preflight.Socket{Domain: unix.AF_ALG}), blocker: "AF_ALG"},
		{name: "named and waiting", facts: withSocket(preflight.Socket{Domain: unix.AF_UNIX},
			preflight.UnixSocket{Inode: 50, State: 1, Type: unix.SOCK_STREAM, Name: "@client", Waiting: []uint64{50}}), warning: "loses the name of who connects, @client"},
		{name: "nice", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Nice = 5 }), warning: "the nice value 5 of its session's group"},
		{name: "policy", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Policy = "bind:1" }), warning: "its policy of memory (bind:1"},
		{name: "queues", facts: session(func(f *preflight.Facts) { f.SystemV.Queues = []string{"a", "b", "c", "d", "e"} }), warning: "queues a, b, c, d and 1 more are lost"},
		{name: "keys", facts: session(func(f *preflight.Facts) { f.Keys = map[uint64]int{1000: 2} }), warning: "user 1000 has 2 keys"},
	})
}
