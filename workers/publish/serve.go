package publish

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// connectionsAtOnce bounds the connections to one session.
const connectionsAtOnce = 256

// Session is what Serve connects to.
type Session struct {
	// Dial connects to a port of the session.
	Dial func(ctx context.Context, port uint16) (net.Conn, error)
	// Whole reports, of a connection that the session has ended, that it did so itself, and wasn't
	// killed.
	Whole func() bool
	// Reader, if given, gives what is told of all that one client says to a port; nil if nothing is.
	Reader func(port uint16) io.Writer
}

// serving is what goes on.
type serving struct {
	mu     sync.Mutex
	closed bool
	open   map[*net.TCPConn]context.CancelFunc // connections from outside, and what ends the wait for the session
}

// Serve connects until Close, and returns at once.
func (s *Server) Serve(to Session) {
	for i, l := range s.listeners {
		go s.accept(l, s.ports[i].Inner, to)
	}
}

// Close gives the ports back and resets all connections.
func (s *Server) Close() {
	if s == nil {
		return
	}
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c, cancel := range s.open {
		cancel()
		c.Close()
	}
}

// add keeps a connection for Close, unless that was called.
func (s *serving) add(c *net.TCPConn, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[*net.TCPConn]context.CancelFunc{}
	}
	s.open[c] = cancel
	return true
}

func (s *serving) drop(c *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// acceptPause is how long a host without resources for connections is left alone.
const acceptPause = 100 * time.Millisecond

func (s *Server) accept(l *net.TCPListener, port uint16, to Session) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		// So that its user gets an error, and no end that looks like the right one, also if this
		// process is killed.
		_ = c.SetLinger(0) // it may have ended
		select {
		case s.room <- struct{}{}:
		default:
			s.endIdlest()
			s.room <- struct{}{} // soon: that one, or another, ends
		}
		ctx, cancel := context.WithCancel(context.Background())
		there := s.add(c, cancel)
		go func() {
			defer func() { <-s.room }()
			defer cancel()
			defer s.drop(c)
			if there {
				s.connect(ctx, c, port, to)
			}
			c.Close()
		}()
	}
}

// connect carries one connection. c is left to be closed.
func (s *Server) connect(ctx context.Context, c *net.TCPConn, port uint16, to Session) {
	up, err := to.Dial(ctx, port)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(ctx, func() { up.Close() })()
	inner, ok := up.(*net.TCPConn)
	if !ok {
		return
	}
	_ = inner.SetLinger(0) // likewise for the session
	_ = inner.SetReadBuffer(buffered)
	sendLate(c)
	sendLate(inner)
	ended := make(chan bool, 2)
	go func() { ended <- carry(c, inner, to.Whole) }()
	go func() { ended <- carry(inner, to.read(c, port), func() bool { return true }) }()
	all := true
	for range 2 {
		if !<-ended {
			all = false
			c.Close()
			up.Close() // which ends the other direction, too
		}
	}
	if !all {
		return
	}
	const usual = -1 // what wasn't sent yet is sent after the close
	_ = c.SetLinger(usual)
	_ = inner.SetLinger(usual)
}

// read gives what a client says, of which a reader may be told.
func (to Session) read(c *net.TCPConn, port uint16) io.Reader {
	if to.Reader != nil {
		if reader := to.Reader(port); reader != nil {
			return io.TeeReader(c, reader)
		}
	}
	return c
}

// carry copies one direction, and reports whether it came to its end.
func carry(to *net.TCPConn, from io.Reader, whole func() bool) bool {
	if _, err := io.Copy(to, from); err != nil || !whole() {
		return false
	}
	_ = to.CloseWrite() // its other end may have closed it
	return true
}
