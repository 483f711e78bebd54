package preflight_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roles are the programs that the tests look at: each has one thing, or many,
// open and then waits. What arg is depends on the role.
var roles = map[string]func(arg string) error{
	"clean":          clean,
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

// clean has many things open that a capture takes along, and works.
func clean(string) error {
	for _, step := range []func() error{cleanEvents, cleanPipes, cleanMemory, cleanFiles, cleanNetwork, cleanTTY, cleanChild} {
		if err := step(); err != nil {
			return err
		}
	}
	go func() {
		for x := 0; ; x++ {
			runtime.Gosched()
		}
	}()
	return nil
}

func cleanEvents() error {
	event, err := unix.Eventfd(3, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0)
	if err != nil {
		return err
	}
	var mask unix.Sigset_t
	mask.Val[0] = 1 << (unix.SIGUSR2 - 1)
	sig, err := unix.Signalfd(-1, &mask, 0)
	if err != nil {
		return err
	}
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	for _, fd := range []int{event, timer, sig} {
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	return nil
}

func cleanPipes() error {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		if _, err := unix.Socketpair(unix.AF_UNIX, kind, 0); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", "/tmp/clean.sock")
	if err != nil {
		return err
	}
	if _, err := net.Dial("unix", "/tmp/clean.sock"); err != nil {
		return err
	}
	held, err := l.Accept()
	keep = append(keep, l, held)
	return err
}

// keep holds what mustn't be collected, and closed with that.
var keep []any

func cleanMemory() error {
	fd, err := unix.MemfdCreate("clean", 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 8192); err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	if _, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON); err != nil {
		return err
	}
	shm, err := os.Create("/dev/shm/clean")
	if err != nil {
		return err
	}
	keep = append(keep, shm)
	if err := shm.Truncate(4096); err != nil {
		return err
	}
	_, err = unix.Mmap(int(shm.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func cleanFiles() error {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc/self/status", "/etc", "/proc"} {
		if err := open(unix.Open(name, unix.O_RDONLY, 0)); err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
	}
	f, err := os.Create("/tmp/locked")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10}); err != nil {
		return err
	}
	if err := ghost("4096"); err != nil {
		return err
	}
	return inotify("/dev/shm")
}

func cleanNetwork() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	s, err := l.Accept()
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	keep = append(keep, l, c, s, u)
	return err
}

func cleanTTY() error {
	master, slave, err := pty()
	keep = append(keep, master, slave)
	return err
}

func pty() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

func cleanChild() error {
	cmd := exec.Command("/bin/sleep", "600")
	in, err := cmd.StdinPipe()
	keep = append(keep, in, cmd)
	if err != nil {
		return err
	}
	return cmd.Start()
}

type uringParams [120]byte

func uringSetup() (int, error) {
	var p uringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
	return int(fd), nonzero(errno)
}

func ioUring(string) error { return open(uringSetup()) }

func ioUringMapping(string) error {
	fd, err := uringSetup()
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return err
	}
	return unix.Close(fd)
}

func corked(string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_CORK, 1); err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("held back"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}})
}

// namespace starts a child in a namespace of its own.
func namespace(kind string) error {
	flags := map[string]uintptr{"net": unix.CLONE_NEWNET, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "user": unix.CLONE_NEWUSER, "cgroup": unix.CLONE_NEWCGROUP}
	cmd := exec.Command("/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags[kind]}
	return cmd.Start()
}

// namespaceOfFutureChildren is in no namespace of its own; its children will be.
func namespaceOfFutureChildren(kind string) error {
	flags := map[string]int{"pid": unix.CLONE_NEWPID, "time": unix.CLONE_NEWTIME}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(flags[kind])
		if err == nil && kind == "time" {
			err = exec.Command("/bin/sleep", "600").Start()
		}
		done <- err
		select {}
	}()
	return <-done
}

func inotify(path string) error {
	fd, err := unix.InotifyInit()
	if err != nil {
		return err
	}
	return open(unix.InotifyAddWatch(fd, path, unix.IN_MODIFY))
}

// inotifyGhost watches a file that has no name any more.
func inotifyGhost(string) error {
	f, err := os.Create("/tmp/watched")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	return inotify(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// fanotifyMark watches "mount:PATH" or "inode:PATH".
func fanotifyMark(arg string) error {
	kind, path, _ := strings.Cut(arg, ":")
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY)
	if err != nil {
		return err
	}
	flags := map[string]uint{"inode": 0, "mount": unix.FAN_MARK_MOUNT, "filesystem": unix.FAN_MARK_FILESYSTEM}[kind]
	return unix.FanotifyMark(fd, unix.FAN_MARK_ADD|flags, unix.FAN_OPEN, unix.AT_FDCWD, path)
}

func traced(string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the tracer is a thread
		cmd := exec.Command("/bin/sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		done <- cmd.Start()
		select {}
	}()
	return <-done
}

// ghost has a file of that many bytes open whose name is gone.
func ghost(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("/tmp", "ghost")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if _, err := io.CopyN(f, zeros{}, int64(n)); err != nil {
		return err
	}
	return os.Remove(f.Name())
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// block opens the block device "major:minor".
func block(device string) error { return open(openBlock(device)) }

func openBlock(device string) (int, error) {
	var major, minor uint32
	if _, err := fmt.Sscanf(device, "%d:%d", &major, &minor); err != nil {
		return 0, err
	}
	if err := unix.Mknod("/dev/test-disk", unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))); err != nil {
		return 0, err
	}
	return unix.Open("/dev/test-disk", unix.O_RDONLY, 0)
}

func blockMapping(device string) error {
	fd, err := openBlock(device)
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	return unix.Close(fd)
}

func lease(string) error {
	f, err := os.Create("/tmp/leased")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	signal.Ignore(unix.SIGIO)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}

func ofdLock(string) error {
	f, err := os.Create("/tmp/ofd")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10})
}

func perf(string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return open(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
}

// bpf makes a map of the kind array, of one entry.
func bpf(string) error {
	attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1}
	return syscallFD(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func secretMapping(string) error {
	fd, _, errno := unix.Syscall(unix.SYS_MEMFD_SECRET, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if err := unix.Ftruncate(int(fd), 4096); err != nil {
		return err
	}
	b, err := unix.Mmap(int(fd), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b[0] = 1
	return unix.Close(int(fd))
}

func pidfd(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	return open(unix.PidfdOpen(cmd.Process.Pid, 0))
}

// zombieWithThreads starts a child whose first thread ends before the others.
func zombieWithThreads(string) error {
	cmd := again("thread leaver")
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			return err
		}
		if strings.Contains(string(stat), ") Z ") {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// again is this program in another role.
func again(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PREFLIGHT_ROLE="+role)
	return cmd
}

func zombie(string) error {
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	keep = append(keep, p)
	return err
}

func lonelyPTY(string) error {
	master, slave, err := pty()
	if err != nil {
		return err
	}
	keep = append(keep, slave)
	return master.Close()
}

func dial(addr string) error {
	c, err := net.Dial("tcp", addr)
	keep = append(keep, c)
	return err
}

func netlinkWithData(string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// A request for all links, whose answer nobody reads.
	request := []byte{20, 0, 0, 0, unix.RTM_GETLINK, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// seccomp puts a filter in place that allows everything.
func seccomp(string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}}
	prog := unix.SockFprog{Len: 1, Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, 1, 1, uintptr(unsafe.Pointer(&prog)))
	return nonzero(errno)
}

func stopped(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Signal(unix.SIGSTOP)
}

func sysV(string) error {
	id, err := unix.SysvShmGet(0, 4096, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmAttach(id, 0, 0)
	return err
}

func aio(string) error {
	var ctx uintptr
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 8, uintptr(unsafe.Pointer(&ctx)), 0)
	return nonzero(errno)
}

func landlock(string) error {
	attr := struct{ fs uint64 }{1}
	return syscallFD(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
}

// halfPipe holds the reading end of a pipe that nobody writes to any more.
func halfPipe(string) error {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	return unix.Close(p[1])
}

func fifo(string) error {
	if err := unix.Mkfifo("/tmp/fifo", 0o600); err != nil {
		return err
	}
	return open(unix.Open("/tmp/fifo", unix.O_RDWR, 0))
}

// unixClosed holds one end of a pair whose other end has been closed.
func unixClosed(string) error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Close(p[1])
}

// unixBacklog has connected to itself, and not accepted.
func unixBacklog(string) error {
	l, err := net.Listen("unix", "/tmp/backlog.sock")
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", "/tmp/backlog.sock")
	keep = append(keep, l, c)
	return err
}

// epollClosed watches a file whose number it has closed, by another number.
func epollClosed(string) error {
	event, err := unix.Eventfd(0, 0)
	if err != nil {
		return err
	}
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return err
	}
	if _, err := unix.Dup(event); err != nil {
		return err
	}
	return unix.Close(event)
}

func tcpBacklog(string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 5); err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	return dial(fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port))
}

// childChroot has a child with another root: one where everything is that the
// child needs, for /bin and /lib are links into it.
func childChroot(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: "/usr"}
	return cmd.Start()
}

func mq(string) error {
	name, _ := unix.BytePtrFromString("queue")
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	return nonzero(errno)
}

// unixDgram sends to a socket by its name, which may be outside.
func unixDgram(path string) error {
	c, err := net.Dial("unixgram", path)
	keep = append(keep, c)
	return err
}

// leaveThread ends the first thread of this process while others go on. It must
// be called on that thread.
func leaveThread() {
	go time.Sleep(time.Hour)
	go func() {
		runtime.LockOSThread()
		_ = unix.Nanosleep(&unix.Timespec{Sec: 3600}, nil)
	}()
	time.Sleep(50 * time.Millisecond)
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}
