package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// guard is the table at the host's end of a veth pair. It is gone when its connection is closed,
// and then nothing leaves the session.
type guard struct {
	conn   *nftables.Conn
	socket *netlink.Conn // of conn
}

// linkLocal and such are addresses that a session never reaches: some of a cloud's give out its
// credentials.
var (
	never4 = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), ours}
	never6 = []netip.Prefix{netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fd00:ec2::254/128"), ours6}
)

// newGuard makes the table for the session of that number. Of what is out of the list nothing
// passes; nil is no list.
func newGuard(number uint16, out []netip.Prefix) (*guard, error) {
	device := deviceName(number)
	around, err := enclosing()
	if err != nil {
		return nil, err
	}
	var socket *netlink.Conn
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		socket = c
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	g := &guard{conn, socket}
	table := &nftables.Table{Name: device, Family: nftables.TableFamilyNetdev}
	if err := ownTable(socket, table); err != nil {
		g.close()
		return nil, fmt.Errorf("make the table of %s: %w", device, err)
	}
	g.fill(table, device, number, around, out)
	if err := conn.Flush(); err != nil {
		g.close()
		return nil, fmt.Errorf("guard %s: %w", device, err)
	}
	return g, nil
}

func (g *guard) fill(table *nftables.Table, device string, number uint16, around, out []netip.Prefix) {
	closed := nftables.ChainPolicyDrop
	// A chain is known before others jump to it.
	pass := g.conn.AddChain(&nftables.Chain{Name: "pass", Table: table})
	add(g.conn, pass, is4, hops(4, oneHop))
	add(g.conn, pass, is6, hops(6, oneHop))
	add(g.conn, pass, take)
	add(g.conn, pass, accept)
	chain := g.conn.AddChain(&nftables.Chain{
		Name: "leave", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookIngress,
		Priority: nftables.ChainPriorityFilter, Device: device, Policy: &closed,
	})
	for _, f := range []struct {
		is    match
		own   netip.Addr
		never []netip.Prefix
	}{{is4, outer(number), never4}, {is6, outer6(number), never6}} {
		add(g.conn, chain, f.is, notFrom(f.own), drop)
		add(g.conn, chain, f.is, toHost, drop)
		for _, p := range slices.Concat(f.never, around) {
			if p.Addr().Is4() == f.own.Is4() {
				add(g.conn, chain, f.is, to(p), drop)
			}
		}
		for _, p := range out {
			if p.Addr().Is4() == f.own.Is4() {
				add(g.conn, chain, f.is, to(p), jump(pass.Name))
			}
		}
		if out == nil {
			add(g.conn, chain, f.is, jump(pass.Name))
		}
	}
}

func (g *guard) close() {
	if g != nil {
		_ = g.conn.CloseLasting() // the kernel removes the table in any case
	}
}

// dup is the guard's connection once more: the table stays until that is closed, too.
func (g *guard) dup() (*os.File, error) {
	raw, err := g.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := 0
	controlErr := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(controlErr, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "guard"), nil
}

// tableOwned has the kernel keep a table for the socket that makes it, and for as long as that is
// open (NFT_TABLE_F_OWNER, Linux 5.12). The library doesn't send a table's flags.
const tableOwned = 2

func ownTable(socket *netlink.Conn, t *nftables.Table) error {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: append([]byte(t.Name), 0)},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, tableOwned)},
	})
	if err != nil {
		return err
	}
	message := func(kind netlink.HeaderType, flags netlink.HeaderFlags, family byte, resource uint16, data []byte) netlink.Message {
		head := binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
		return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: append(head, data...)}
	}
	const newTable = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE)
	_, err = socket.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
		message(newTable, netlink.Acknowledge|netlink.Create|netlink.Excl, byte(t.Family), 0, attributes),
		message(unix.NFNL_MSG_BATCH_END, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
	})
	if err != nil {
		return err
	}
	_, err = socket.Receive()
	return err
}
