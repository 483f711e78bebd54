package activityport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/accept"
	"github.com/diapause/diapause/schemas"
)

// Number is the port.
const Number = 4222

// connectionsAtOnce bounds the connections of one session.
const connectionsAtOnce = 32

// What the programs of one session may send: activity is small, and the server takes only so much
// from all sessions of a host, whose connections come from one user.
const (
	bytesPerSecond = 32 << 10
	bytesAtOnce    = bytesPerSecond
)

// dialWait bounds how long a server may take to answer.
const dialWait = 5 * time.Second

// Server serves the port.
type Server struct {
	listener    *net.TCPListener
	connections chan struct{} // has room for those that may come
	rate        *rate.Limiter
	all         sync.WaitGroup
	ctx         context.Context // ends at Close
	end         context.CancelFunc
}

// URL is where programs inside find the port at an address.
func URL(at netip.Addr) string { return "nats://" + netip.AddrPortFrom(at, Number).String() }

// Listen opens the port, in the network namespace of this thread.
func Listen(at netip.Addr) (*Server, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, Number)))
	if err != nil {
		return nil, fmt.Errorf("listen for activity: %w", err)
	}
	s := &Server{listener: l, connections: make(chan struct{}, connectionsAtOnce), rate: rate.NewLimiter(bytesPerSecond, bytesAtOnce)}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Upstream connects to what takes activity for a port.
type Upstream func(ctx context.Context) (net.Conn, error)

// Serve passes connections on for a session until Close.
func (s *Server) Serve(name schemas.Name, to Upstream) {
	s.all.Go(func() {
		accept.Each(s.ctx, s.listener.AcceptTCP, func(c *net.TCPConn) {
			select {
			case s.connections <- struct{}{}:
			default:
				c.Close()
				return
			}
			s.all.Go(func() {
				defer func() { <-s.connections }()
				defer c.Close()
				s.pass(name, to, c)
			})
		}, nil)
	})
}

// Close ends all of it.
func (s *Server) Close() {
	s.end()
	s.listener.Close()
	s.all.Wait()
}

// plain lists the hosts, with their ports, of servers that are reached without TLS.
func plain(servers string) (hosts []string) {
	for text := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != "nats" || u.Hostname() == "" {
			continue
		}
		port := u.Port()
		if port == "" {
			port = fmt.Sprint(Number)
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
	}
	return hosts
}

// source is where a connection to a server comes from: to one of this machine from an address by which it tells apart what
// runs in sessions from what else root does; nil leaves it to the kernel.
func source(server string) net.Addr {
	if at, err := netip.ParseAddrPort(server); err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() {
		return nil
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(schemas.InsideSource(), 0))
}

// ToDoor leads to the Door, of package activitydoor, in a host's data directory.
func ToDoor(data string) Upstream {
	return func(ctx context.Context) (net.Conn, error) {
		dir, err := os.Open(data)
		if err != nil {
			return nil, fmt.Errorf("open the data directory: %w", err)
		}
		defer dir.Close()
		d := net.Dialer{Timeout: dialWait}
		return d.DialContext(ctx, "unix", Within(dir))
	}
}

// Socket is the name of a Door in a host's data directory, which sessions don't see.
const Socket = "activity.sock"

// Within gives the address of a Door in a directory, whose own path may be longer than an address.
func Within(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), Socket) }

// ToServers leads to the first of NATS servers that answers, without credentials. Their addresses have commas between; those
// that want TLS are left out.
func ToServers(addresses string) Upstream {
	hosts := plain(addresses)
	return func(ctx context.Context) (net.Conn, error) {
		for _, host := range hosts {
			d := net.Dialer{Timeout: dialWait, LocalAddr: source(host)}
			if c, err := d.DialContext(ctx, "tcp", host); err == nil {
				return c, nil
			}
		}
		return nil, errNoServer
	}
}

var errNoServer = errors.New("no server takes activity without TLS")

func (s *Server) pass(name schemas.Name, to Upstream, c net.Conn) {
	up, err := to(s.ctx)
	if err != nil {
		return // the program connects again
	}
	stop := context.AfterFunc(s.ctx, func() { c.Close(); up.Close() })
	defer stop()
	newRelay(name, c, up).run(func(size int) error { return s.rate.WaitN(s.ctx, size) })
}
