package network

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// match is a part of a rule: the rule goes on if it is true of the packet.
type match []expr.Any

func rule(matches ...match) (all []expr.Any) {
	for _, m := range matches {
		all = append(all, m...)
	}
	return all
}

func verdict(kind expr.VerdictKind) match { return match{&expr.Verdict{Kind: kind}} }

var (
	drop   = verdict(expr.VerdictDrop)
	accept = verdict(expr.VerdictAccept)
)

func jump(chain string) match {
	return match{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// is4 and is6 hold for packets of IP, by the type of the frame.
var (
	is4 = etherType(unix.ETH_P_IP)
	is6 = etherType(unix.ETH_P_IPV6)
)

func etherType(t uint16) match {
	return match{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, t)},
	}
}

// protocol holds for packets of a protocol on top of IP.
func protocol(p byte) match {
	return match{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p}},
	}
}

// address compares the source or the destination, which begins at offset of the header, with a
// prefix of its family.
func address(op expr.CmpOp, offset uint32, p netip.Prefix) match {
	p = p.Masked()
	value := p.Addr().AsSlice()
	m := match{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(value))}}
	if p.Bits() < p.Addr().BitLen() {
		mask := asNet(p).Mask
		m = append(m, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(value)), Mask: mask, Xor: make([]byte, len(value))})
	}
	return append(m, &expr.Cmp{Op: op, Register: 1, Data: value})
}

// Where addresses are in the headers.
const (
	source4, destination4 = 12, 16
	source6, destination6 = 8, 24
)

func from(p netip.Prefix) match {
	if p.Addr().Is4() {
		return address(expr.CmpOpEq, source4, p)
	}
	return address(expr.CmpOpEq, source6, p)
}

func notFrom(a netip.Addr) match {
	p := netip.PrefixFrom(a, a.BitLen())
	if a.Is4() {
		return address(expr.CmpOpNeq, source4, p)
	}
	return address(expr.CmpOpNeq, source6, p)
}

func to(p netip.Prefix) match {
	if p.Addr().Is4() {
		return address(expr.CmpOpEq, destination4, p)
	}
	return address(expr.CmpOpEq, destination6, p)
}

// toHost holds for packets to an address of the host, of whichever interface, to all and to
// groups.
var toHost = match{
	&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
	&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_UNICAST)},
}

// take makes the host take a frame that isn't addressed to it.
var take = match{
	&expr.Immediate{Register: 1, Data: []byte{unix.PACKET_HOST}},
	&expr.Meta{Key: expr.MetaKeyPKTTYPE, Register: 1, SourceRegister: true},
}

// What packets of sessions may take: one hop ends at the host.
const (
	oneHop    = 1
	usualHops = 64
)

// hops sets how many a packet of IP of that version may take.
func hops(version int, n byte) match {
	write := &expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 7, Len: 1}
	if version == 4 {
		write.Offset, write.CsumType, write.CsumOffset = 8, expr.CsumTypeInet, 10
	}
	return match{&expr.Immediate{Register: 1, Data: []byte{n}}, write}
}

// through holds for packets through an interface; a name without its end stands for all that
// begin with it.
func through(key expr.MetaKey, op expr.CmpOp, name string, whole bool) match {
	data := []byte(name)
	if whole {
		data = append(data, make([]byte, unix.IFNAMSIZ-len(name))...)
	}
	return match{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: data}}
}

// The packets of sessions, on the host.
var (
	fromSession  = through(expr.MetaKeyIIFNAME, expr.CmpOpEq, prefix, false)
	toSession    = through(expr.MetaKeyOIFNAME, expr.CmpOpEq, prefix, false)
	notToSession = through(expr.MetaKeyOIFNAME, expr.CmpOpNeq, prefix, false)
)

func snat(to netip.Addr) match {
	family := uint32(unix.NFPROTO_IPV4)
	if to.Is6() {
		family = unix.NFPROTO_IPV6
	}
	return match{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: family, RegAddrMin: 1},
	}
}

// unmarked holds for packets without criu's mark.
var unmarked = match{
	&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
	&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(criuMark)},
}

// criuMark is on the packets of sockets that criu has in hand (SOCCR_MARK in its source).
const criuMark = 0xc114

// clamp keeps TCP segments of both ways small enough for the route that they take.
var clamp = append(protocol(unix.IPPROTO_TCP),
	&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
	&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{tcpSyn | tcpRst}, Xor: []byte{0}},
	&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{tcpSyn}},
	&expr.Rt{Register: 1, Key: expr.RtTCPMSS},
	&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 2, Size: 2},
	&expr.Exthdr{SourceRegister: 1, Type: tcpMaxSegment, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt},
)

const (
	tcpSyn        = 0x02
	tcpRst        = 0x04
	tcpMaxSegment = 2 // the option
)

// add adds a rule to the end of a chain.
func add(c *nftables.Conn, chain *nftables.Chain, matches ...match) {
	c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: rule(matches...)})
}
