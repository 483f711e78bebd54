package preflight_test

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// roles are the programs that the tests look at: each has one thing, or many,
// open and then waits. What arg is depends on the role.
var roles = map[string]func(arg string) error{
	"clean":          clean,
	"churn":          churn,
	"io_uring":       ioUring,
	"io_uring map":   ioUringMapping,
	"mptcp":          func(string) error { return open(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 262)) },
	"vsock":          func(string) error { return open(unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)) },
	"packet":         func(string) error { return open(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)) },
	"raw":            func(string) error { return open(unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)) },
	"udp":            func(string) error { return open(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)) },
	"corked":         corked,
	"namespace":      namespace,
	"namespace only": namespaceOfFutureChildren,
	"namespace fd":   func(string) error { return open(unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)) },
	"fanotify":       func(string) error { return open(unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY)) },
	"inotify":        inotify,
	"inotify ghost":  inotifyGhost,
	"fanotify mark":  fanotifyMark,
	"traced":         traced,
	"ghost":          ghost,
	"open":           func(path string) error { return open(unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)) },
	"block":          block,
	"block map":      blockMapping,
	"lease":          lease,
	"ofd lock":       ofdLock,
	"perf":           perf,
	"bpf":            bpf,
	"userfaultfd":    func(string) error { return syscallFD(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0) },
	"memfd_secret":   func(string) error { return syscallFD(unix.SYS_MEMFD_SECRET, 0, 0, 0) },
	"secret map":     secretMapping,
	"pidfd":          pidfd,
	"inherit":        func(string) error { return nil }, // the tests pass a file as number 3
	"zombie threads": zombieWithThreads,
	"zombie":         zombie,
	"lonely pty":     lonelyPTY,
	"other user":     func(string) error { return unix.Setresuid(12345, 12345, 12345) },
	"dial":           dial,
	"netlink":        func(string) error { return open(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)) },
	"netlink data":   netlinkWithData,
	"seccomp":        seccomp,
	"stopped":        stopped,
	"sysv":           sysV,
	"aio":            aio,
	"landlock":       landlock,
	"half pipe":      halfPipe,
	"fifo":           fifo,
	"unix closed":    unixClosed,
	"unix backlog":   unixBacklog,
	"epoll closed":   epollClosed,
	"tcp backlog":    tcpBacklog,
	"chroot":         func(string) error { return unix.Chroot("/usr") },
	"child chroot":   childChroot,
	"mq":             mq,
	"unix dgram":     unixDgram,
	"o_path":         func(path string) error { return open(unix.Open(path, unix.O_PATH, 0)) },
	"tun":            func(string) error { return open(unix.Open("/dev/net/tun", unix.O_RDWR, 0)) },
}

// open keeps what a system call opened, by forgetting its number.
func open(_ int, err error) error { return err }

func syscallFD(trap, a, b, c uintptr) error {
	_, _, errno := unix.Syscall(trap, a, b, c)
	return nonzero(errno)
}

func nonzero(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
