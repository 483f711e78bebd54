package nameserver

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

const long = 20 * time.Second

// The server of a test listens in a network namespace of its own. Name servers are at addresses of
// this host's loopback that nothing else uses.

// upstream is a name server at an address of this host's loopback, which answers "is" after the
// query, and closes what comes by TCP after the first.
type upstream struct {
	addr netip.Addr
	mu   sync.Mutex
	got  int
}

func serveUpstream(t *testing.T, at string) *upstream {
	t.Helper()
	u := &upstream{addr: netip.MustParseAddr(at)}
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(u.addr, port)))
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(u.addr, port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close(); tcp.Close() })
	go func() {
		b := make([]byte, largest)
		for {
			n, from, err := udp.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			u.mu.Lock()
			u.got++
			u.mu.Unlock()
			// One that isn't the answer comes first, as from who guesses.
			udp.WriteToUDPAddrPort([]byte{b[0] + 1, b[1], 'x'}, from)
			udp.WriteToUDPAddrPort(append(slices.Clone(b[:n]), "is"...), from)
		}
	}()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			c.Write(append(b, "is"...))
			c.Close()
		}
	}()
	return u
}

// listening makes a server at loopback, and a way to connect to it.
func listening(t *testing.T, servers ...netip.Addr) (dial func(network string) net.Conn) {
	t.Helper()
	var s *Server
	calls, answers := make(chan string), make(chan net.Conn)
	at := netip.MustParseAddr("127.0.0.1")
	ready := make(chan error, 1)
	go thread.Discard(func() error {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopbackUp()
		}
		if err == nil {
			s, err = Listen(at)
		}
		ready <- err
		for network := range calls {
			c, err := net.Dial(network, netip.AddrPortFrom(at, port).String())
			if err != nil {
				t.Error(err)
			}
			answers <- c
		}
		return nil
	})
	if err := <-ready; err != nil {
		t.Fatalf("listen in a network namespace, as root: %v", err)
	}
	s.Serve(func() []netip.Addr { return servers })
	t.Cleanup(func() { close(calls); s.Close() })
	return func(network string) net.Conn {
		t.Helper()
		calls <- network
		c := <-answers
		if c == nil {
			t.FailNow()
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(long))
		return c
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func query(t *testing.T, c net.Conn, q string) string {
	t.Helper()
	if _, err := c.Write([]byte(q)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, largest)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestAnswers(t *testing.T) {
	up := serveUpstream(t, "127.0.53.1")
	dial := listening(t, up.addr)
	if got, want := query(t, dial("udp"), "\x12\x34name?"), "\x12\x34name?is"; got != want {
		t.Errorf("by UDP %q is answered, want %q", got, want)
	}
	c := dial("tcp").(*net.TCPConn)
	io.WriteString(c, "name?")
	c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "name?is" || err != nil {
		t.Errorf("by TCP %q is answered (%v)", got, err)
	}
}

// TestNextServer asks one that isn't served first.
func TestNextServer(t *testing.T) {
	up := serveUpstream(t, "127.0.53.2")
	dial := listening(t, netip.MustParseAddr("127.0.53.3"), up.addr)
	if got, want := query(t, dial("udp"), "\x12\x34name?"), "\x12\x34name?is"; got != want {
		t.Errorf("%q is answered, want %q", got, want)
	}
}

// TestFlood has a session ask for much more than is answered at a time; it is served all the same
// afterwards.
func TestFlood(t *testing.T) {
	silent := netip.MustParseAddr("127.0.53.4")
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(silent, port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	up := serveUpstream(t, "127.0.53.5")
	dial := listening(t, silent, up.addr)
	c := dial("udp")
	for range 8 * queriesAtOnce {
		c.Write([]byte("\x12\x34name?"))
	}
	if got, want := query(t, c, "\x12\x34name?"), "\x12\x34name?is"; got != want {
		t.Errorf("%q is answered, want %q", got, want)
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.got > 2*queriesAtOnce {
		t.Errorf("%d queries were passed on, want %d at a time", up.got, queriesAtOnce)
	}
}

func TestResolver(t *testing.T) {
	conf := []byte("# hello\nnameserver 127.0.0.53\nsearch a.example b.example\noptions edns0\nnameserver fe80::1%eth0\nnameserver nonsense\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n")
	want := []netip.Addr{netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("10.0.0.1")}
	if got := servers(conf); !slices.Equal(got, want) {
		t.Errorf("servers = %v, want %v", got, want)
	}
	got := resolver(conf, netip.MustParseAddr("198.19.0.3"))
	if want := "nameserver 198.19.0.3\nsearch a.example b.example\noptions edns0\n"; !bytes.Equal(got, []byte(want)) {
		t.Errorf("resolver = %q, want %q", got, want)
	}
}
