package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// short bounds a wait for a packet that must not come.
const short = 300 * time.Millisecond

func made(t *testing.T, o Options) *Network {
	t.Helper()
	n, err := Make(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// echo serves TCP and UDP on an address, in the network where do runs it, and returns its port.
// Who connects gets the address that it is seen by.
func echo(t *testing.T, where func(func() error) error, at string) netip.AddrPort {
	t.Helper()
	var l net.Listener
	var u net.PacketConn
	err := where(func() (err error) {
		if l, err = net.Listen("tcp", net.JoinHostPort(at, "0")); err != nil {
			return err
		}
		u, err = net.ListenPacket("udp", l.Addr().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, c.RemoteAddr().String())
			c.Close()
		}
	}()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			u.WriteTo([]byte(from.String()), from)
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func here(do func() error) error { return do() }

// ask connects from a network and returns what the other side says.
func ask(n *Network, protocol string, to netip.AddrPort, wait time.Duration) (string, error) {
	var answer []byte
	err := n.Inside(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		c, err := new(net.Dialer).DialContext(ctx, protocol, to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(wait))
		if protocol == "udp" {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
			answer = make([]byte, 100)
			k, err := c.Read(answer)
			answer = answer[:k]
			return err
		}
		answer, err = io.ReadAll(c)
		return err
	})
	return string(answer), err
}

const long = 20 * time.Second

func TestOutByBothProtocols(t *testing.T) {
	n := made(t, Options{})
	for _, at := range []string{peerAddress, peerAddr6} {
		to := echo(t, inOutside, at)
		for _, protocol := range []string{"tcp", "udp"} {
			got, err := ask(n, protocol, to, long)
			if err != nil {
				t.Fatalf("%s to %s: %v", protocol, to, err)
			}
			want := hostAddress
			if to.Addr().Is6() {
				want = hostAddr6
			}
			if seen := netip.MustParseAddrPort(got).Addr().String(); seen != want {
				t.Errorf("%s to %s is seen to come from %s, want the host's address %s", protocol, to, seen, want)
			}
		}
	}
}

// What a session must not reach: each is served, and answers the host itself.
func TestDropped(t *testing.T) {
	n, other := made(t, Options{}), made(t, Options{})
	to := map[string]netip.AddrPort{
		"the host's address":            echo(t, here, hostAddress),
		"the host's address, IPv6":      echo(t, here, hostAddr6),
		"the host's link-local address": echo(t, here, localLinkIP),
		"a link-local address outside":  echo(t, inOutside, "169.254.1.1"),
	}
	all := echo(t, here, "::")
	for _, a := range []string{outer(other.number).String(), gateway.String(), outer6(other.number).String(), gateway6.String(), "255.255.255.255"} {
		to[a] = netip.AddrPortFrom(netip.MustParseAddr(a), all.Port())
	}
	inOther := echo(t, other.Inside, "::")
	to["another session"] = netip.AddrPortFrom(outer(other.number), inOther.Port())
	to["another session, IPv6"] = netip.AddrPortFrom(outer6(other.number), inOther.Port())
	for what, a := range to {
		for _, protocol := range []string{"tcp", "udp"} {
			t.Run(what+" "+protocol, func(t *testing.T) {
				t.Parallel()
				if got, err := ask(n, protocol, a, short); err == nil {
					t.Errorf("%s to %s was answered: %q", protocol, a, got)
				}
			})
		}
	}
	if _, err := ask(n, "tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), all.Port()), long); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("the host's loopback port %d: %v, want %v", all.Port(), err, unix.ECONNREFUSED)
	}
}

// reaches waits until the outside is reached: what was changed is mended beside.
func reaches(t *testing.T, n *Network, peer netip.AddrPort) {
	t.Helper()
	for deadline := time.Now().Add(long); ; {
		got, err := ask(n, "tcp", peer, short)
		if err == nil && strings.HasPrefix(got, hostAddress+":") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the outside isn't reached: %q, %v", got, err)
		}
	}
}

func TestFlushed(t *testing.T) {
	n := made(t, Options{})
	host, peer := echo(t, here, hostAddress), echo(t, inOutside, peerAddress)
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.FlushRuleset()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(n, "tcp", host, short); err == nil {
		t.Errorf("after the rules were flushed the host answered: %q", got)
	}
	reaches(t, n, peer)
	if got, err := ask(n, "tcp", host, short); err == nil {
		t.Errorf("when the table was made again the host answered: %q", got)
	}
}

// A worker that is started after the rules were flushed makes the tables again.
func TestFlushedBeforeKept(t *testing.T) {
	n := made(t, Options{})
	peer := echo(t, inOutside, peerAddress)
	keeper.Close()
	if err := removeTables(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(n, "tcp", peer, short); err == nil {
		t.Errorf("without the tables the outside answered: %q", got)
	}
	var err error
	if keeper, err = Keep(); err != nil {
		t.Fatal(err)
	}
	reaches(t, n, peer)
}

// The guard is gone when the process ends that has it: nothing passes then.
func TestNothingPassesWithoutTheGuard(t *testing.T) {
	n := made(t, Options{})
	host, peer := echo(t, here, hostAddress), echo(t, inOutside, peerAddress)
	if _, err := ask(n, "tcp", peer, long); err != nil {
		t.Fatal(err)
	}
	n.guard.close()
	for _, to := range []netip.AddrPort{host, peer} {
		for _, protocol := range []string{"tcp", "udp"} {
			if got, err := ask(n, protocol, to, short); err == nil {
				t.Errorf("%s to %s was answered: %q", protocol, to, got)
			}
		}
	}
}

func TestAllowOut(t *testing.T) {
	peer, peer6 := echo(t, inOutside, peerAddress), echo(t, inOutside, peerAddr6)
	for _, c := range []struct {
		name      string
		out       []netip.Prefix
		four, six bool
	}{
		{"none", []netip.Prefix{}, false, false},
		{"the one", []netip.Prefix{netip.MustParsePrefix(peerAddress + "/32")}, true, false},
		{"another", []netip.Prefix{netip.MustParsePrefix("203.0.113.128/25")}, false, false},
		{"two", []netip.Prefix{netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("198.51.100.0/24")}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := made(t, Options{AllowOut: c.out})
			for to, want := range map[netip.AddrPort]bool{peer: c.four, peer6: c.six} {
				wait := short
				if want {
					wait = long
				}
				if _, err := ask(n, "tcp", to, wait); (err == nil) != want {
					t.Errorf("to %s: %v, want it to pass: %v", to, err, want)
				}
			}
		})
	}
}

func TestClosedLeavesNothing(t *testing.T) {
	n, err := Make(Options{})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	gone(t, n)
}

func TestLeftIsFinishedByAnother(t *testing.T) {
	n, err := Make(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rest := n.Leave()
	if !slices.Contains(tables(t), deviceName(n.number)) {
		t.Error("the guard ended before Finish")
	}
	if err := Finish(rest); err != nil {
		t.Error(err)
	}
	gone(t, n)
	isolated, err := Make(Options{Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	if rest := isolated.Leave(); rest != nil {
		t.Errorf("a network without a way out left %v", rest)
	}
}

// gone waits until nothing is left of a network that is closed.
func gone(t *testing.T, n *Network) {
	t.Helper()
	name := deviceName(n.number)
	for deadline := time.Now().Add(long); ; time.Sleep(5 * time.Millisecond) {
		if _, err := net.InterfaceByName(name); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", name)
		}
	}
	if left := tables(t); slices.Contains(left, name) {
		t.Errorf("the table %s is still there", name)
	}
}

func BenchmarkMake(b *testing.B) {
	for b.Loop() {
		n, err := Make(Options{})
		if err != nil {
			b.Fatal(err)
		}
		n.Close()
	}
}
