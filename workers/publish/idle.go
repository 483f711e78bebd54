package publish

import (
	"math"
	"net"

	"golang.org/x/sys/unix"
)

// unspoken is how much faster a connection becomes idle whose client has said nothing yet: a flood of
// them ends none that is in use, and a client has some time for its first word.
const unspoken = 1000

// idleness is the milliseconds since either side has sent something, as the kernel has them, times unspoken
// if that applies. A connection that the kernel doesn't know any more is the idlest.
func idleness(c *net.TCPConn) uint64 {
	var ms uint64 = math.MaxUint64
	raw, err := c.SyscallConn()
	if err != nil {
		return ms
	}
	_ = raw.Control(func(fd uintptr) { // an error leaves it the idlest
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		ms = uint64(min(info.Last_data_sent, info.Last_data_recv))
		if info.Bytes_received == 0 {
			ms *= unspoken
		}
	})
	return ms
}

// endIdlest resets the connection that is used least, so that clients which say nothing, read
// nothing or are gone can't keep others out.
func (s *serving) endIdlest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var idlest *net.TCPConn
	var most uint64
	for c := range s.open {
		if ms := idleness(c); idlest == nil || ms > most {
			idlest, most = c, ms
		}
	}
	if idlest == nil {
		return // those that are open are being ended
	}
	s.open[idlest]()
	idlest.Close()
	delete(s.open, idlest)
}

// buffered is how much waits in the kernel for the slower end of a connection, in bytes: on either side what
// isn't sent yet, and what the session has sent. Without a bound it is some megabytes for each
// client that reads nothing.
const buffered = 256 << 10

// sendLate has a connection take more to send only when less than buffered waits.
func sendLate(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it has ended
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, buffered)
	})
}
