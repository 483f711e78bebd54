package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Connection is a TCP connection of the session, as its own end has it.
type Connection struct{ Local, Remote netip.AddrPort }

// DestroyOutside ends the TCP connections whose other end isn't in the network too, and returns
// them: a program that uses one gets ECONNABORTED. In a network that is locked the other side isn't told.
func (n *Network) DestroyOutside() (ended []Connection, err error) {
	err = n.Inside(func() error {
		ends, err := connections()
		if err != nil {
			return err
		}
		for c, s := range ends {
			if _, inside := ends[Connection{c.Remote, c.Local}]; inside {
				continue
			}
			if err := destroy(s); err != nil {
				return fmt.Errorf("end the connection %s to %s: %w", c.Local, c.Remote, err)
			}
			ended = append(ended, c)
		}
		return nil
	})
	return ended, err
}

// connections lists the ends of TCP connections in this thread's namespace.
func connections() (map[Connection]*netlink.Socket, error) {
	all := map[Connection]*netlink.Socket{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if errors.Is(err, unix.ENOENT) { // there is no IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the session's connections: %w", err)
		}
		for _, s := range sockets {
			switch s.State {
			case netlink.TCP_LISTEN, netlink.TCP_CLOSE, netlink.TCP_TIME_WAIT, netlink.TCP_NEW_SYN_REC:
				continue
			}
			local, ok1 := netip.AddrFromSlice(s.ID.Source)
			remote, ok2 := netip.AddrFromSlice(s.ID.Destination)
			if ok1 && ok2 {
				all[Connection{netip.AddrPortFrom(local.Unmap(), s.ID.SourcePort), netip.AddrPortFrom(remote.Unmap(), s.ID.DestinationPort)}] = s
			}
		}
	}
	return all, nil
}

// destroy ends one connection, by what the kernel calls it.
func destroy(s *netlink.Socket) error {
	req := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	b := []byte{s.Family, unix.IPPROTO_TCP, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // in any state
	b = binary.BigEndian.AppendUint16(b, s.ID.SourcePort)
	b = binary.BigEndian.AppendUint16(b, s.ID.DestinationPort)
	for _, ip := range []net.IP{s.ID.Source, s.ID.Destination} {
		if s.Family == unix.AF_INET {
			ip = ip.To4()
		}
		var field [16]byte
		copy(field[:], ip)
		b = append(b, field[:]...)
	}
	b = binary.NativeEndian.AppendUint32(b, s.ID.Interface)
	b = binary.NativeEndian.AppendUint32(b, s.ID.Cookie[0])
	b = binary.NativeEndian.AppendUint32(b, s.ID.Cookie[1])
	req.AddRawData(b)
	_, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
	if errors.Is(err, unix.ENOENT) { // it has ended by itself
		return nil
	}
	return err
}
