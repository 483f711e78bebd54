package preflight

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	inotifyLink = "anon_inode:inotify"
	epollLink   = "anon_inode:[eventpoll]"
)

// epiocGParams asks an epoll how it polls devices itself; kernels before 6.9 don't know it.
const epiocGParams = 0x80088a02

// polls reports whether an epoll was told to poll devices itself.
func polls(fd int) bool {
	var params [8]byte
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), epiocGParams, uintptr(unsafe.Pointer(&params)))
	return errno == 0 && params != [8]byte{}
}

// parse reads a line of the fdinfo of a timerfd.
func (t *Timer) parse(key, value string) {
	switch key {
	case "ticks":
		t.Ticks, _ = strconv.ParseUint(value, 10, 64)
	case "settime flags":
		flags, _ := strconv.ParseUint(value, 8, 32)
		t.Absolute = flags&1 != 0
	case "it_value":
		t.Running = !zeroTime(value)
	case "it_interval":
		t.Periodic = !zeroTime(value)
	}
}

// zeroTime reports whether a time is none: "(0, 0)".
func zeroTime(value string) bool { return strings.Trim(value, "(0, )") == "" }

// siocOutqNSD asks a TCP socket how much of what was written isn't sent yet.
const siocOutqNSD = 0x894b

// lookAtQueue asks a duplicate of the socket what waits in its queues. It takes nothing
// out of them.
func (s *Socket) lookAtQueue(fd int) {
	switch {
	case s.inet() && s.Type == unix.SOCK_STREAM && s.Protocol == unix.IPPROTO_TCP:
		s.Urgent = urgent(fd)
		s.Layer, _ = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP)
		s.Unsent, _ = unix.IoctlGetInt(fd, siocOutqNSD)
		s.Local = localOf(fd)
	case s.Domain == unix.AF_UNIX:
		s.Urgent, s.Empty = urgent(fd), s.Type != unix.SOCK_STREAM && empty(fd)
		pass, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED)
		s.PassCred = pass != 0
		if c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			s.PeerPID = int(c.Pid)
		}
	}
}

// siocUnixFile gives an O_PATH descriptor of the file that a unix socket is bound to.
const siocUnixFile = 0x89e0

// movedTo gives the path of the file of a unix socket, if it isn't the one it was bound to any
// more. A file that was removed is at none. A path that was relative is compared by its last
// element, for the directory that it was relative to isn't known.
func (l *looker) movedTo(num int) (string, error) {
	fd, err := unix.PidfdGetfd(l.handle, num, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	name, err := unix.Getsockname(fd)
	bound, ok := name.(*unix.SockaddrUnix)
	if err != nil || !ok || bound.Name == "" || bound.Name[0] == '@' {
		return "", nil
	}
	file, err := unix.IoctlRetInt(fd, siocUnixFile)
	if err != nil {
		return "", nil // it has none, or the kernel doesn't tell
	}
	defer unix.Close(file)
	is, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", file))
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil || st.Nlink == 0 {
		return "", err
	}
	switch {
	case strings.HasSuffix(is, deleted): // a link of another name is left
		return "another name of " + bound.Name, nil
	case !path.IsAbs(bound.Name) && path.Base(bound.Name) == path.Base(is), path.IsAbs(bound.Name) && l.at(bound.Name, st):
		return "", nil
	}
	return is, nil
}

// at reports whether a path leads the process to a file.
func (l *looker) at(name string, st unix.Stat_t) bool {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", l.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var found unix.Stat_t
	return unix.Fstat(fd, &found) == nil && found.Dev == st.Dev && found.Ino == st.Ino
}

func localOf(fd int) netip.AddrPort {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// urgent reports whether a byte of urgent data waits.
func urgent(fd int) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_OOB|unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == nil && n == 1
}

// empty reports whether the next packet that waits has no bytes. At the end of all packets,
// which looks alike, the other end has hung up.
func empty(fd int) bool {
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	if n, err := unix.Poll(ready, 0); n != 1 || err != nil || ready[0].Revents != unix.POLLIN {
		return false
	}
	// Into no room: an offset that the program has set for its own peeks (SO_PEEK_OFF) stays.
	n, _, err := unix.Recvfrom(fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC|unix.MSG_DONTWAIT)
	return err == nil && n == 0
}
