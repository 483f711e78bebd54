package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// The tests run in a network namespace of their own, which is the host for them: it has an uplink to
// another namespace, the outside.

const (
	inHost      = "DIAPAUSE_TEST_HOST"
	uplink      = "uplink"
	hostAddress = "203.0.113.1"
	gatewayTo   = "203.0.113.2"  // of the host's uplink, on the other machine
	peerAddress = "198.51.100.2" // of the outside, a route away
	hostAddr6   = "2001:db8::1"
	gatewayTo6  = "2001:db8::2"
	peerAddr6   = "2001:db8:1::2"
	localLinkIP = "169.254.169.254"
)

var (
	outside *os.File // the namespace
	keeper  *Keeper  // as a worker has one
)

func TestMain(m *testing.M) {
	if os.Getenv(inHost) != "" {
		legacyEvery = 50 * time.Millisecond
		err := makeHost()
		if err == nil {
			keeper, err = Keep()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inHost+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace, as root:", err)
		os.Exit(1)
	}
}

func makeHost() error {
	err := thread.Discard(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		outside, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = uplink
	err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: uplink, PeerNamespace: netlink.NsFd(outside.Fd())})
	if err != nil {
		return err
	}
	if err := configure(hostAddress, hostAddr6, localLinkIP, gatewayTo, gatewayTo6); err != nil {
		return err
	}
	return inOutside(func() error {
		if err := configure(gatewayTo, gatewayTo6, "169.254.1.1", "", ""); err != nil {
			return err
		}
		l, err := netlink.LinkByName(uplink)
		if err != nil {
			return err
		}
		for _, a := range []string{peerAddress, peerAddr6} {
			if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: whole(netip.MustParseAddr(a)), Flags: unix.IFA_F_NODAD}); err != nil {
				return err
			}
		}
		return nil
	})
}

// configure sets up this thread's namespace.
func configure(four, six, more, via4, via6 string) error {
	for _, name := range []string{"lo", uplink} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if name == uplink {
			for _, a := range []string{four + "/24", six + "/64", more + "/16"} {
				n := &netlink.Addr{IPNet: asNet(netip.MustParsePrefix(a)), Flags: unix.IFA_F_NODAD}
				if err := netlink.AddrAdd(l, n); err != nil {
					return fmt.Errorf("%s: %w", a, err)
				}
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	for _, via := range []string{via4, via6} {
		if via == "" {
			continue
		}
		if err := netlink.RouteAdd(&netlink.Route{Gw: asIP(netip.MustParseAddr(via))}); err != nil {
			return err
		}
	}
	return nil
}

func inOutside(do func() error) error {
	return thread.Discard(func() error {
		if err := unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}
