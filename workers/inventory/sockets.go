package inventory

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// socket notes what a socket is, where it is bound and connected to, and what waits in it.
func (c *collector) socket(o Object, fd int) {
	get := func(option int) int {
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		if err != nil {
			return -1
		}
		return n
	}
	domain, kind, protocol := get(unix.SO_DOMAIN), get(unix.SO_TYPE), get(unix.SO_PROTOCOL)
	c.note(o, "socket", fmt.Sprintf("%d %d %d", domain, kind, protocol))
	if domain == unix.AF_PACKET {
		c.packet(o, fd)
	} else if name, err := unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err == nil && name != "" {
		c.note(o, "interface", name)
		c.devices.Names[name] = true
	}
	if kind != unix.SOCK_STREAM && (domain == unix.AF_INET || domain == unix.AF_INET6) {
		c.devices.Groups = true
	}
	listens := get(unix.SO_ACCEPTCONN) == 1
	c.note(o, "listens", strconv.FormatBool(listens))
	own, peer := address(unix.Getsockname(fd)), address(unix.Getpeername(fd))
	connection := domain != unix.AF_UNIX && kind == unix.SOCK_STREAM && !listens
	switch {
	case domain == unix.AF_UNIX && kind != unix.SOCK_DGRAM && !listens:
		c.note(o, "own name", own) // that it was accepted by: it can't be reached there
	case domain != unix.AF_NETLINK && domain != unix.AF_PACKET:
		c.note(o, "bound to", own)
	}
	switch {
	case connection:
		c.connection(o, fd, own, peer)
	case domain == unix.AF_UNIX:
		c.unix(o, fd, peer, listens)
	case domain == unix.AF_INET || domain == unix.AF_INET6:
		c.note(o, "connected to", peer)
		if !listens {
			c.note(o, AspectDatagrams, waiting(fd))
		}
	}
	options := fmt.Sprint(get(unix.SO_REUSEADDR), get(unix.SO_KEEPALIVE), get(unix.SO_PASSCRED), get(unix.SO_BROADCAST), get(unix.SO_OOBINLINE))
	if !connection { // else the kernel changes them
		options += fmt.Sprint(" ", get(unix.SO_RCVBUF), get(unix.SO_SNDBUF))
	}
	c.note(o, "socket's options", options)
	c.owner(o, fd)
}

// packet notes where a socket takes packets from, and how much of the first one waits.
func (c *collector) packet(o Object, fd int) {
	c.note(o, AspectDatagrams, waiting(fd))
	if a, err := unix.Getsockname(fd); err == nil {
		if a, ok := a.(*unix.SockaddrLinklayer); ok {
			c.note(o, "interface", fmt.Sprintf("%d for %x", a.Ifindex, a.Protocol))
			c.devices.Indexes[a.Ifindex] = true
		}
	}
}

// Devices are the network interfaces that sockets depend on.
type Devices struct {
	Names   map[string]bool
	Indexes map[int]bool
	Groups  bool // those with multicast groups, too
}

// Devices gives the network interfaces that the processes' sockets depend on.
func (inv *Inventory) Devices() Devices { return inv.devices }

// flow is what is on its way through a connection in one direction: bytes that wait to be
// acknowledged, those of them that weren't sent, and bytes that wait to be read. What was sent
// may be among the last, or read already: its acknowledgement goes with the answer.
type flow struct{ waiting, unsent, received int }

// least and most bound how many bytes the receiver has yet to read.
func (f flow) least() int { return f.unsent + f.received }
func (f flow) most() int  { return f.waiting + f.received }

// connection notes a TCP connection. What is on its way moves from one end's queue to the
// other's by itself, so that both together are noted.
func (c *collector) connection(o Object, fd int, own, peer string) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return
	}
	c.note(o, "connection", connectionState(info.State)+" with "+peer)
	if nodelay, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err == nil {
		c.note(o, "connection's options", strconv.Itoa(nodelay))
	}
	e := end{own: own, peer: peer}
	if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
		e.out.waiting, e.out.unsent = n, min(n, int(info.Notsent_bytes))
	}
	if n, err := unix.IoctlGetInt(fd, unix.SIOCINQ); err == nil {
		e.in.received = n
	}
	c.ends = append(c.ends, e)
}

// connectionState names a state of TCP. From some the kernel goes on to others as soon as the
// other end's answer comes.
func connectionState(n uint8) string {
	const finWait1, finWait2, closed, lastACK, closing, timeWait = 4, 5, 7, 9, 11, 6
	switch n {
	case finWait1, finWait2, closing:
		return "closed by this end"
	case closed, lastACK, timeWait:
		return "closed"
	}
	return fmt.Sprintf("state %d", n)
}

func (c *collector) unix(o Object, fd int, peer string, listens bool) {
	c.note(o, "other end's name", peer)
	if !listens {
		c.note(o, "bytes in it", waiting(fd))
	}
	if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		c.note(o, AspectPeer, fmt.Sprintf("%d %d %d", c.inner[int(cred.Pid)], int32(cred.Uid), int32(cred.Gid)))
	}
}

// address gives a socket's address as text; empty if there is none.
func address(a unix.Sockaddr, err error) string {
	if err != nil {
		return ""
	}
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)).String()
	case *unix.SockaddrUnix:
		if a.Name == "@" { // none
			return ""
		}
		return strings.TrimRight(a.Name, "\x00")
	}
	return ""
}
