package attack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Keys of Facts.Services.
const (
	Loopback   = "loopback"   // of the host
	Host4      = "host 4"     // an address of the host
	Host6      = "host 6"     // the same, IPv6
	Plain      = "plain"      // NATS, for clients without credentials
	Secure     = "secure"     // NATS, by TLS
	HTTP       = "http"       // of the gateway
	Metadata   = "metadata"   // where clouds give out credentials
	Neighbor4  = "neighbor 4" // another session
	Neighbor6  = "neighbor 6"
	Advertised = "advertised" // for direct connections
	Datagrams  = "datagrams"  // at which the test counts what has the mark
)

const (
	private  = "private"
	host     = "host"
	timedOut = "timeout"
	silence  = Refusal("silence")
	dropped  = Refusal("dropped")
)

func reaches(service string) func(Facts) error {
	return func(f Facts) error { return dial("tcp", f.Services[service]) }
}

// reach is what a session may reach on networks.
func reach() []Attempt {
	refused, late := []string{"ECONNREFUSED"}, []string{timedOut}
	late6 := []string{timedOut, "ENETUNREACH"} // of a host that doesn't forward IPv6
	all := []Attempt{
		{What: "connect to the host's loopback", Only: private, Want: refused, Control: true, Try: reaches(Loopback)},
		{What: "connect to the daemon's NATS server", Only: private, Want: refused, Control: true, Try: reaches(Plain)},
		{What: "connect to its door for credentials", Only: private, Want: refused, Control: true, Try: reaches(Secure)},
		{What: "connect to an address of the host", Only: private, Want: late, Control: true, Try: reaches(Host4)},
		{What: "connect to an IPv6 address of the host", Only: private, Want: late6, Control: true, Try: reaches(Host6)},
		{What: "connect to 169.254.169.254", Only: private, Want: late, Try: reaches(Metadata)},
		{What: "connect to another session", Only: private, Want: late, Try: reaches(Neighbor4)},
		{What: "connect to another session by IPv6", Only: private, Want: late6, Try: reaches(Neighbor6)},
		{What: "connect to an abstract socket of the host", Only: private, Want: refused, Control: true, Try: func(f Facts) error { return dial("unix", "@"+f.Abstract) }},
		{What: "send with the address of another", Only: private, Want: []string{string(dropped)}, Control: true, Try: spoof},
		{What: "hear what others send, by a packet socket", Want: []string{string(silence)}, Host: eperm, Control: true, Try: hear},
		{What: "open a raw socket", Only: host, Want: eperm, Control: true, Try: open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)},
		{What: "open a raw IPv6 socket", Only: host, Want: eperm, Control: true, Try: open(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
		{What: "take the loopback device down", Want: eperm, Try: linkDown},
		{What: "change the rules of nftables", Want: eperm, Try: netfilter},
		{What: "end connections of others", Want: enoent, Host: []string{"EPERM", "ENOTSUP"}, Try: destroy},
		{What: "connect to the machine's hypervisor", Want: eperm, Try: open(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	}
	return slices.Concat(all, port(), garbledPort())
}

func open(family, kind, protocol int) func(Facts) error {
	return func(Facts) error { return second(unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)) }
}

// hear listens to all that crosses the devices, while the test sends on the host's loopback.
func hear(f Facts) error {
	every := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, every)
	if err != nil {
		return err
	}
	wait := unix.NsecToTimeval(int64(short))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return err
	}
	packet := make([]byte, 1<<16)
	for end := time.Now().Add(short); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(fd, packet, 0)
		if err == nil && bytes.Contains(packet[:n], []byte(f.Mark)) {
			return nil
		}
	}
	return silence
}

// spoof sends a datagram that seems to come from elsewhere. The test looks whether it arrives.
func spoof(f Facts) error {
	to, err := netip.ParseAddrPort(f.Services[Datagrams])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	text := f.Mark + " from " + f.Network
	udp := binary.BigEndian.AppendUint16(nil, 53)
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...) // without a sum
	ip := append([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(20+len(udp)))...)
	ip = append(ip, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0)
	ip = append(append(ip, 198, 51, 100, 1), to.Addr().AsSlice()...)
	if err := unix.Sendto(fd, append(ip, udp...), 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}); err != nil || f.Network == "" {
		return err
	}
	return dropped
}

func linkDown(Facts) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// ask sends a message of netlink and gives the error in the answer.
func ask(family int, kind uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return err
	}
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(append(m, make([]byte, 8)...), body...)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink gives another answer")
	}
	return asError(unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:]))))
}

func netfilter(Facts) error {
	return ask(unix.NETLINK_NETFILTER, unix.NFNL_MSG_BATCH_BEGIN, []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES})
}

// destroy asks for the end of a connection (SOCK_DESTROY, 21).
func destroy(f Facts) error {
	at, err := netip.ParseAddrPort(f.Services[Loopback])
	if err != nil {
		return err
	}
	body := []byte{unix.AF_INET, unix.IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff}
	body = binary.BigEndian.AppendUint16(body, at.Port())
	body = append(body, 0, 0, 127, 0, 0, 1)
	body = append(body, make([]byte, 12+16+4)...)
	body = append(body, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	return ask(unix.NETLINK_SOCK_DIAG, 21, body)
}

// Outside are the attempts of another machine.
func Outside() []Attempt {
	return append([]Attempt{
		{What: "connect to the daemon's NATS server", Want: []string{"ECONNREFUSED"}, Try: elsewhere(Plain)},
		{What: "connect to its door for credentials", Want: []string{"ECONNREFUSED"}, Try: elsewhere(Secure)},
		{What: "connect to a session by the address that its packets had", Want: []string{timedOut}, Try: reaches(Neighbor4)},
		{What: "the same by IPv6", Want: []string{timedOut}, Try: reaches(Neighbor6)},
	}, advertised()...)
}

// elsewhere connects to the port of a service, at the address of the host that others see.
func elsewhere(service string) func(Facts) error {
	return func(f Facts) error {
		_, port, err := net.SplitHostPort(f.Services[service])
		if err != nil {
			return err
		}
		address, _, err := net.SplitHostPort(f.Services[Host4])
		if err != nil {
			return err
		}
		return dial("tcp", net.JoinHostPort(address, port))
	}
}
