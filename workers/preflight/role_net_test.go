package preflight_test

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

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
	// A request for all links, whose answer is never read.
	request := []byte{20, 0, 0, 0, unix.RTM_GETLINK, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// halfPipe holds the reading end of a pipe that has no writer any more.
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

// unixDgram sends to a socket by its name, which may be outside.
func unixDgram(path string) error {
	c, err := net.Dial("unixgram", path)
	keep = append(keep, c)
	return err
}
