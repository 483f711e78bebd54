package network

import (
	"net"
	"net/netip"
)

// The addresses inside, the same in every session and on every host.
var (
	// Inner is the session's own address.
	Inner = netip.MustParsePrefix("198.19.0.2/29")
	// Inner6 likewise.
	Inner6 = netip.MustParsePrefix("fd64:6961:7061:2::2/64")
	// Service is where the session finds what Diapause serves inside: DNS.
	Service = netip.MustParseAddr("198.19.0.3")

	gateway  = netip.MustParseAddr("198.19.0.1")
	gateway6 = netip.MustParseAddr("fd64:6961:7061:2::1")
)

// The addresses that sessions have on the host: one of each for a number.
var (
	pool  = netip.MustParsePrefix("198.18.0.0/16")
	pool6 = netip.MustParsePrefix("fd64:6961:7061:1::/64")
	ours  = netip.MustParsePrefix("198.18.0.0/15")       // of all sessions, inside and outside
	ours6 = netip.MustParsePrefix("fd64:6961:7061::/48") // likewise
)

// highest is the highest number of a session on a host; 1 is the lowest.
const highest = 1<<16 - 2

func outer(number uint16) netip.Addr {
	b := pool.Addr().As4()
	b[2], b[3] = byte(number>>8), byte(number)
	return netip.AddrFrom4(b)
}

func outer6(number uint16) netip.Addr {
	b := pool6.Addr().As16()
	b[14], b[15] = byte(number>>8), byte(number)
	return netip.AddrFrom16(b)
}

// The hardware addresses. No interface has that of the gateway: only the guard accepts what is sent
// to it.
var (
	innerMAC   = net.HardwareAddr{0x02, 0x64, 0x69, 0x61, 0x70, 0x02}
	gatewayMAC = net.HardwareAddr{0x02, 0x64, 0x69, 0x61, 0x70, 0x01}
)

// The names of interfaces: the host's ends of veth pairs begin with the prefix.
const (
	prefix    = "diap"
	innerName = "eth0"
)

// asIP gives an address as package net has it.
func asIP(a netip.Addr) net.IP { return a.AsSlice() }

func asNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: asIP(p.Addr()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// whole is the prefix of one address.
func whole(a netip.Addr) *net.IPNet { return asNet(netip.PrefixFrom(a, a.BitLen())) }
