// Package networktest makes what tests of private networks need beside sessions: an outside, which is
// a network namespace that the host reaches through a veth pair. It never changes what the host has
// but for that pair, which is gone when the test ends.
package networktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// Outside is a machine beside the host.
type Outside struct {
	Host, Host6 netip.Addr // of the host, as the outside sees it
	Addr, Addr6 netip.Addr // its own

	space *os.File
}

// links is how many tests have one at a time, on one host.
const links = 64

// New makes an outside for a test.
func New(t testing.TB) *Outside {
	t.Helper()
	o := &Outside{}
	err := thread.Discard(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		o.space, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err == nil {
		err = o.connect(t)
	}
	if err != nil {
		t.Fatalf("make a network namespace for a test, as root: %v", err)
	}
	return o
}

func (o *Outside) connect(t testing.TB) error {
	attrs := netlink.NewLinkAttrs()
	// The name is refused if another test has it, and the addresses with it.
	err := error(unix.EEXIST)
	for i := 0; errors.Is(err, unix.EEXIST) && i < links; i++ {
		attrs.Name = fmt.Sprintf("dtest%02x", i)
		err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(o.space.Fd())})
		o.Host, o.Addr = netip.AddrFrom4([4]byte{203, 0, 113, byte(4*i + 1)}), netip.AddrFrom4([4]byte{203, 0, 113, byte(4*i + 2)})
		o.Host6, o.Addr6 = address6(i, 1), address6(i, 2)
	}
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		o.space.Close()
		if l, err := netlink.LinkByName(attrs.Name); err == nil {
			_ = netlink.LinkDel(l) // or the kernel does, when the namespace is gone
		}
	})
	if err := set(attrs.Name, o.Host, o.Host6); err != nil {
		return err
	}
	return o.Inside(func() error { return set("eth0", o.Addr, o.Addr6) })
}

// address6 is of the range for documents.
func address6(link, end int) netip.Addr {
	a := netip.MustParseAddr("2001:db8:203::").As16()
	a[7], a[15] = byte(link), byte(end)
	return netip.AddrFrom16(a)
}

func set(name string, a, six netip.Addr) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(30, 32)}}); err != nil {
		return err
	}
	at6 := &netlink.Addr{IPNet: &net.IPNet{IP: six.AsSlice(), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
	if err := netlink.AddrAdd(l, at6); err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// Inside runs do there, on a thread of its own.
func (o *Outside) Inside(do func() error) error {
	return thread.Discard(func() error {
		if err := unix.Setns(int(o.space.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

// Route makes the host the way from there to all other addresses.
func (o *Outside) Route(t testing.TB) {
	t.Helper()
	err := o.Inside(func() error {
		l, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: o.Host.AsSlice()})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Start starts a program there.
func (o *Outside) Start(cmd *exec.Cmd) error { return threadtest.StartIn(o.space, cmd) }

// Echo serves TCP there, and gives back each line. The port is returned.
func (o *Outside) Echo(t testing.TB) uint16 {
	t.Helper()
	l := o.Listen(t)
	serve(l)
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// Listen listens for TCP there, until the test ends.
func (o *Outside) Listen(t testing.TB) (l net.Listener) {
	t.Helper()
	err := o.Inside(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(o.Addr, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Echo serves TCP on an address of the host, as Outside.Echo does there.
func Echo(t testing.TB, at netip.Addr) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve(l)
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func serve(l net.Listener) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // until the other side is gone
				c.Close()
			}()
		}
	}()
}
