package nameserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/diapause/diapause/events/accept"
)

// The bounds of one session.
const (
	queriesAtOnce     = 128
	connectionsAtOnce = 32
	largest           = 8 << 10          // bytes of a message by UDP
	attempt           = 2 * time.Second  // for one name server's answer
	idle              = 20 * time.Second // after which a TCP connection is closed
)

const port = 53

// Server answers queries at one address.
type Server struct {
	udp *net.UDPConn
	tcp *net.TCPListener

	servers     func() []netip.Addr
	queries     chan struct{} // has room for those that may come
	connections chan struct{}
	all         sync.WaitGroup
	ctx         context.Context // ends at Close
	end         context.CancelFunc
}

// Listen opens the sockets, in the network namespace of this thread.
func Listen(at netip.Addr) (*Server, error) {
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
	if err != nil {
		return nil, fmt.Errorf("listen for queries: %w", err)
	}
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
	if err != nil {
		udp.Close()
		return nil, fmt.Errorf("listen for queries: %w", err)
	}
	s := &Server{udp: udp, tcp: tcp, queries: make(chan struct{}, queriesAtOnce), connections: make(chan struct{}, connectionsAtOnce)}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Serve answers until Close. servers gives the addresses of name servers, the best first.
func (s *Server) Serve(servers func() []netip.Addr) {
	s.servers = servers
	s.all.Go(s.serveUDP)
	s.all.Go(s.serveTCP)
}

// Close ends all of it.
func (s *Server) Close() {
	s.end()
	s.udp.Close()
	s.tcp.Close()
	s.all.Wait()
}

func (s *Server) serveUDP() {
	b := make([]byte, largest)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < 2 {
			continue // the kernel reports what became of an earlier answer
		}
		select {
		case s.queries <- struct{}{}:
		default:
			continue // its resolver asks again
		}
		query := append([]byte(nil), b[:n]...)
		s.all.Go(func() {
			defer func() { <-s.queries }()
			if answer := s.ask(query); answer != nil {
				_, _ = s.udp.WriteToUDPAddrPort(answer, from) // it may have gone
			}
		})
	}
}

// ask asks one name server after the other; nil if none answers.
func (s *Server) ask(query []byte) []byte {
	for _, server := range s.servers() {
		if answer, err := s.askOne(server, query); err == nil {
			return answer
		}
	}
	return nil
}

func (s *Server) askOne(server netip.Addr, query []byte) ([]byte, error) {
	c, err := s.dial("udp", server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(s.ctx, func() { c.Close() })()
	if err := c.SetDeadline(time.Now().Add(attempt)); err != nil {
		return nil, err
	}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	answer := make([]byte, largest)
	for {
		n, err := c.Read(answer)
		if err != nil {
			return nil, err
		}
		if n >= 2 && answer[0] == query[0] && answer[1] == query[1] {
			return answer[:n], nil
		}
	}
}

func (s *Server) dial(network string, server netip.Addr) (net.Conn, error) {
	d := net.Dialer{Timeout: attempt}
	return d.DialContext(s.ctx, network, netip.AddrPortFrom(server, port).String())
}

func (s *Server) serveTCP() {
	accept.Each(s.ctx, s.tcp.AcceptTCP, func(c *net.TCPConn) {
		select {
		case s.connections <- struct{}{}:
		default:
			c.Close()
			return
		}
		s.all.Go(func() {
			defer func() { <-s.connections }()
			defer c.Close()
			s.relay(c)
		})
	}, nil)
}

// relay passes a connection on to the first name server that takes it.
func (s *Server) relay(c *net.TCPConn) {
	for _, server := range s.servers() {
		up, err := s.dial("tcp", server)
		if err != nil {
			continue
		}
		defer up.Close()
		stop := context.AfterFunc(s.ctx, func() { c.Close(); up.Close() })
		defer stop()
		var back sync.WaitGroup
		back.Go(func() {
			pass(c, up)
			c.Close()
		})
		pass(up, c)
		back.Wait()
		return
	}
}

// pass copies until one side closes or nothing comes for a while.
func pass(to, from net.Conn) {
	b := make([]byte, largest)
	for {
		if from.SetReadDeadline(time.Now().Add(idle)) != nil {
			return
		}
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				closeWrite(to)
			}
			return
		}
	}
}

func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite() // it may be closed already
	}
}
