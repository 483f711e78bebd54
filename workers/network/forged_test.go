package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// wire sends frames of any content from a session, as root in it can.
type wire struct {
	t      *testing.T
	n      *Network
	socket int
	index  int // of eth0
}

func tap(t *testing.T, n *Network) *wire {
	t.Helper()
	w := &wire{t: t, n: n}
	err := n.Inside(func() (err error) {
		l, err := netlink.LinkByName(innerName)
		if err != nil {
			return err
		}
		w.index = l.Attrs().Index
		w.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(w.socket) })
	return w
}

func (w *wire) send(to, from net.HardwareAddr, kind uint16, content []byte) {
	w.t.Helper()
	frame := binary.BigEndian.AppendUint16(slices.Concat(to, from), kind)
	if err := unix.Sendto(w.socket, append(frame, content...), 0, &unix.SockaddrLinklayer{Ifindex: w.index}); err != nil {
		w.t.Fatal(err)
	}
}

// datagram sends one of UDP, from any address.
func (w *wire) datagram(mac net.HardwareAddr, from netip.Addr, to netip.AddrPort, text string) {
	w.t.Helper()
	const port = 4000
	udp := binary.BigEndian.AppendUint16(nil, port)
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...)
	pseudo := slices.Concat(from.AsSlice(), to.Addr().AsSlice(), []byte{0, unix.IPPROTO_UDP, 0, byte(len(udp))})
	binary.BigEndian.PutUint16(udp[6:], checksum(append(pseudo, udp...)))
	if from.Is6() {
		head := []byte{0x60, 0, 0, 0, 0, byte(len(udp)), unix.IPPROTO_UDP, 64}
		w.send(mac, innerMAC, unix.ETH_P_IPV6, slices.Concat(head, from.AsSlice(), to.Addr().AsSlice(), udp))
		return
	}
	head := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	head = slices.Concat(head, from.AsSlice(), to.Addr().AsSlice())
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	w.send(mac, innerMAC, unix.ETH_P_IP, append(head, udp...))
}

func checksum(b []byte) uint16 {
	if len(b)%2 == 1 {
		b = append(slices.Clone(b), 0)
	}
	sum := uint32(0)
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// heard collects what arrives by UDP at an address.
type heard struct {
	at netip.AddrPort

	mu    sync.Mutex
	texts []string
}

func listenFor(t *testing.T, where func(func() error) error, at string) *heard {
	t.Helper()
	var u net.PacketConn
	err := where(func() (err error) {
		u, err = net.ListenPacket("udp", net.JoinHostPort(at, "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	h := &heard{at: netip.MustParseAddrPort(u.LocalAddr().String())}
	go func() {
		b := make([]byte, 1000)
		for {
			k, _, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			h.mu.Lock()
			h.texts = append(h.texts, string(b[:k]))
			h.mu.Unlock()
		}
	}()
	return h
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.texts)
}

const genuine = "with its own address"

// A session that writes its frames itself reaches the outside with its own address alone, and the
// host, whose hardware address it may find out, with none.
func TestForgedSources(t *testing.T) {
	n, other := made(t, Options{}), made(t, Options{})
	w := tap(t, n)
	link, err := netlink.LinkByName(deviceName(n.number))
	if err != nil {
		t.Fatal(err)
	}
	outside4, outside6 := listenFor(t, inOutside, peerAddress), listenFor(t, inOutside, peerAddr6)
	host4, host6 := listenFor(t, here, hostAddress), listenFor(t, here, hostAddr6)
	for _, mac := range []net.HardwareAddr{gatewayMAC, link.Attrs().HardwareAddr, broadcast} {
		for _, from := range []string{
			Inner.Addr().String(), outer(other.number).String(), gateway.String(), hostAddress, peerAddress, "127.0.0.1", "0.0.0.0", "192.0.2.7", localLinkIP, "255.255.255.255",
			Inner6.Addr().String(), outer6(other.number).String(), gateway6.String(), hostAddr6, peerAddr6, "::1", "::", "2001:db8:1::7", "fe80::1",
		} {
			a := netip.MustParseAddr(from)
			for _, to := range []*heard{outside4, host4, outside6, host6} {
				if to.at.Addr().Is4() == a.Is4() {
					w.datagram(mac, a, to.at, fmt.Sprintf("%s from %s to %s", mac, from, to.at.Addr()))
				}
			}
		}
		w.datagram(mac, outer(n.number), host4.at, "its own to the host")
		w.datagram(mac, outer6(n.number), host6.at, "its own to the host")
	}
	w.datagram(gatewayMAC, outer(n.number), outside4.at, genuine)
	w.datagram(gatewayMAC, outer6(n.number), outside6.at, genuine)
	for deadline := time.Now().Add(long); len(outside4.all()) == 0 || len(outside6.all()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("what has its own address doesn't arrive: %q, %q", outside4.all(), outside6.all())
		}
	}
	time.Sleep(short)
	for _, h := range []*heard{outside4, outside6, host4, host6} {
		for _, text := range h.all() {
			if text != genuine {
				t.Errorf("it arrives: %s", text)
			}
		}
	}
}

// A session that says that others' addresses are its own changes nothing that the host knows.
func TestForgedNeighbours(t *testing.T) {
	n, other := made(t, Options{}), made(t, Options{})
	w := tap(t, n)
	peer := listenFor(t, inOutside, peerAddress)
	if _, err := ask(n, "udp", echo(t, inOutside, peerAddress), long); err != nil { // the host knows its neighbour then
		t.Fatal(err)
	}
	evil := net.HardwareAddr{0x02, 0xee, 0xee, 0xee, 0xee, 0xee}
	for _, a := range []string{outer(n.number).String(), outer(other.number).String(), gateway.String(), hostAddress, peerAddress} {
		address := netip.MustParseAddr(a).AsSlice()
		ask := netip.MustParseAddr(hostAddress).AsSlice() // who asks for it is remembered, as a rule
		for operation, target := range map[byte][]byte{1: ask, 2: address} {
			head := []byte{0, 1, 8, 0, 6, 4, 0, operation}
			w.send(broadcast, evil, unix.ETH_P_ARP, slices.Concat(head, evil, address, evil, target))
		}
	}
	for _, a := range []string{outer6(n.number).String(), outer6(other.number).String(), gateway6.String(), hostAddr6, peerAddr6} {
		w.advertise(evil, netip.MustParseAddr(a))
	}
	w.datagram(gatewayMAC, outer(n.number), peer.at, genuine)
	for deadline := time.Now().Add(long); len(peer.all()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what is sent after it doesn't arrive")
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.NeighList(0, family)
		if err != nil {
			t.Fatal(err)
		}
		for _, known := range all {
			if slices.Equal(known.HardwareAddr, evil) {
				t.Errorf("the host believes that %s is at %s", known.IP, known.HardwareAddr)
			}
		}
	}
}

// advertise says by IPv6 that an address is at a hardware address.
func (w *wire) advertise(at net.HardwareAddr, a netip.Addr) {
	w.t.Helper()
	all := netip.MustParseAddr("ff02::1")
	body := slices.Concat([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, a.AsSlice(), []byte{2, 1}, at)
	pseudo := slices.Concat(a.AsSlice(), all.AsSlice(), []byte{0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6})
	binary.BigEndian.PutUint16(body[2:], checksum(append(pseudo, body...)))
	head := []byte{0x60, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255}
	w.send(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, at, unix.ETH_P_IPV6, slices.Concat(head, a.AsSlice(), all.AsSlice(), body))
}
