package preflight_test

import (
	"net/netip"
	"testing"

	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/tree"
	"golang.org/x/sys/unix"
)

// lacking is facts for a CRIU without some patches.
func lacking(f preflight.Facts, patches ...string) preflight.Facts {
	f.Lacks = patches
	return f
}

func withSystemV(v preflight.SystemV) preflight.Facts {
	return one(func(f *preflight.Facts, _ *preflight.Process) { f.SystemV = v })
}

func TestJudgeQueues(t *testing.T) {
	tcp := func(s preflight.Socket) preflight.Facts {
		s.Domain, s.Type, s.Protocol = unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP
		return withSocket(s)
	}
	ours := func(s preflight.Socket, u preflight.UnixSocket) preflight.Facts {
		s.Domain, s.Type = unix.AF_UNIX, u.Type
		u.Inode = 50
		return withSocket(s, u)
	}
	runJudge(t, []judgeCase{
		{name: "urgent", facts: tcp(preflight.Socket{Urgent: true}), blocker: "TCP socket with urgent data"},
		{name: "tls", facts: tcp(preflight.Socket{Layer: "tls"}), blocker: `TCP socket with "tls" in the kernel`},
		{name: "error of TCP", facts: tcp(preflight.Socket{Failed: true}), warning: "the error that waits in a TCP socket is lost"},
		{name: "UDP", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: unix.SOCK_DGRAM, Unread: true}), warning: "UDP socket are lost"},
		{name: "raw", facts: withSocket(preflight.Socket{Domain: unix.AF_INET6, Type: unix.SOCK_RAW, Unread: true}), warning: "raw socket are lost"},
		{name: "raw, empty", facts: withSocket(preflight.Socket{Domain: unix.AF_INET, Type: unix.SOCK_RAW})},
		{name: "packets", facts: withSocket(preflight.Socket{Domain: unix.AF_PACKET, Type: unix.SOCK_RAW, Unread: true}), warning: "packet socket are lost"},
		{name: "empty packet", facts: ours(preflight.Socket{Unread: true, Empty: true}, preflight.UnixSocket{Type: unix.SOCK_SEQPACKET, State: 1, Shutdown: 3}), warning: "an empty packet"},
		{name: "unix urgent", facts: ours(preflight.Socket{Urgent: true}, preflight.UnixSocket{Type: unix.SOCK_STREAM, State: 1, Shutdown: 3}), blocker: "unix socket with urgent data"},
		{name: "credentials", facts: ours(preflight.Socket{PassCred: true, Unread: true}, preflight.UnixSocket{Type: unix.SOCK_STREAM, State: 1, Shutdown: 3}), blocker: "credentials in its queue"},
		{name: "renamed", facts: ours(preflight.Socket{Moved: "/run/new"}, preflight.UnixSocket{Type: unix.SOCK_STREAM, State: 10}), warning: "isn't reached by /run/new"},
		{name: "sender", facts: ours(preflight.Socket{Unread: true}, preflight.UnixSocket{Type: unix.SOCK_DGRAM, State: 7}), warning: "lose the address of their sender"},
		{name: "events", facts: withFile(preflight.File{Link: "anon_inode:inotify", Unread: 32}), warning: "32 bytes of inotify events"},
		{name: "F_NOTIFY", facts: withFile(preflight.File{Link: "/tmp", Type: unix.S_IFDIR, Mount: 7, Watched: true}), blocker: "directory watched by F_NOTIFY"},
		{name: "process", facts: withFile(preflight.File{Link: "/proc/8", Type: unix.S_IFDIR, Mount: 7}), blocker: "fd 5: /proc/8"},
		{name: "ended process", facts: withFile(preflight.File{Link: "/proc/8 (deleted)", Type: unix.S_IFDIR, Mount: 7})},
		{name: "packets", facts: withFile(preflight.File{Link: "pipe:[8]", Type: unix.S_IFIFO, Flags: unix.O_RDWR | unix.O_DIRECT}), blocker: "pipe of packets"},
		{name: "huge memfd", facts: withFile(preflight.File{Link: "/memfd:x (deleted)", Type: unix.S_IFREG, Huge: true}), blocker: "fd 5: /memfd:x of huge pages"},
		{name: "huge mapping", facts: withMapping(preflight.Mapping{Path: "/anon_hugepage (deleted)", Type: unix.S_IFREG, Huge: true}), blocker: "/anon_hugepage of huge pages"},
		{name: "segments", facts: withSystemV(preflight.SystemV{Removed: 2}), warning: "removed (2) stay"},
		{name: "semaphores", facts: withSystemV(preflight.SystemV{Sets: 1}), warning: "SEM_UNDO"},
		{name: "timers of the day", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Clocks = 3 }), warning: "of its 3 timers of the wall clock"},
		{name: "full", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Full = true }), blocker: "its address space is at its limit"},
		{name: "crowded", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Crowded = true }), blocker: "as many open files as it may"},
		{name: "confined", facts: one(func(_ *preflight.Facts, p *preflight.Process) { p.Confined = true }), warning: "Landlock"},
		{name: "all confined", facts: one(func(f *preflight.Facts, p *preflight.Process) { p.Confined, f.Init = true, p.PID })},
		{name: "ring of none", facts: withMapping(preflight.Mapping{Path: "socket:[9]"}), blocker: "socket:[9]"},
	})
}

func TestJudgeWithoutPatches(t *testing.T) {
	expired := preflight.File{Link: "anon_inode:[timerfd]", Timer: preflight.Timer{Ticks: 1, Periodic: true}}
	semaphore := preflight.File{Link: "anon_inode:[eventfd]", Counts: true}
	orphan := one(func(f *preflight.Facts, p *preflight.Process) {
		f.Init, p.Parent, p.Session = 1000, 1008, 5
		f.Processes = append(f.Processes, preflight.Process{PID: 1008, Inside: 8, Session: 8, State: 'S', Limits: true, Root: "/", Spaces: p.Spaces})
	})
	unsent := withSocket(preflight.Socket{Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Unsent: 9, Local: netip.MustParseAddrPort("127.0.0.1:1")})
	unsent.Connections = []tree.Connection{{PID: 1007, Inside: true, Local: netip.MustParseAddrPort("127.0.0.1:1")}}
	link := withWatch(tree.Watch{Path: "/link", Named: true, Symlink: true})
	background := one(func(_ *preflight.Facts, p *preflight.Process) { p.Session, p.Terminal = 5, true })
	runJudge(t, []judgeCase{
		{name: "timerfd", facts: withFile(expired)},
		{name: "timerfd without", facts: lacking(withFile(expired), "timerfd"), blocker: "timerfd that expired unread"},
		{name: "eventfd", facts: withFile(semaphore)},
		{name: "eventfd without", facts: lacking(withFile(semaphore), "eventfd"), blocker: "eventfd that is a semaphore"},
		{name: "subreaper", facts: orphan},
		{name: "subreaper without", facts: lacking(orphan, "subreaper"), blocker: "its session's leader has ended"},
		{name: "unsent", facts: unsent},
		{name: "unsent without", facts: lacking(unsent, "tcp-unsent"), blocker: "data that isn't sent yet"},
		{name: "inotify", facts: link},
		{name: "inotify without", facts: lacking(link, "inotify"), blocker: "of a symbolic link"},
		{name: "terminal", facts: background},
		{name: "terminal without", facts: lacking(background, "terminal"), warning: "its controlling terminal is lost"},
		{name: "options without", facts: lacking(background, "sockopts"), warning: "most options of sockets"},
		{name: "sleep without", facts: lacking(background, "sleep"), warning: "sleeps in what goes on"},
		{name: "locks without", facts: lacking(background, "posix-locks"), warning: "fcntl locks"},
		{name: "terminal flags without", facts: lacking(background, "terminal-flags"), warning: "flags of open files"},
		{name: "input of inner terminals without", facts: lacking(background, "terminal-input"), warning: "unfinished lines"},
		{name: "reserved without", facts: lacking(background, "reserved"), warning: "larger than this host's memory"},
	})
}
