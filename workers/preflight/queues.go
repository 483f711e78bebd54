package preflight

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const inotifyLink = "anon_inode:inotify"

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
		s.Urgent = urgent(fd)
		pass, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED)
		s.PassCred = pass != 0
		if c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			s.PeerPID = int(c.Pid)
		}
	}
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
