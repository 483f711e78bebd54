package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// ErrRefused: no program listens at the port, at any address of the network.
var ErrRefused = errors.New("nothing listens at the port")

// Namespace opens the network namespace of a process.
func Namespace(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("open the session's network: %w", err)
	}
	return f, nil
}

// Dial connects to a TCP port in a network namespace.
func Dial(ctx context.Context, space *os.File, port uint16) (*net.TCPConn, error) {
	var conn *net.TCPConn
	err := thread.Discard(func() (err error) {
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the session's network: %w", err)
		}
		conn, err = dialHere(ctx, port)
		return err
	})
	return conn, err
}

// dialHere connects in this thread's namespace: a socket belongs to the one in which it was made,
// and net makes it on the thread that dials a literal address.
func dialHere(ctx context.Context, port uint16) (*net.TCPConn, error) {
	addresses := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	own, err := interfaceAddresses()
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	d.SetMultipathTCP(false) // criu can't save the session's end of one
	for _, a := range append(addresses, own...) {
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String())
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to port %d: %w", port, ctx.Err())
		}
	}
	return nil, ErrRefused
}

// interfaceAddresses lists the addresses of this thread's namespace but the loopback's.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the session's network: %w", err)
	}
	var found []netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		found = append(found, p.Addr())
	}
	return found, nil
}
