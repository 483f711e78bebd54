package publish

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slow is a session behind a published port, and what its host sees of it.
type slow struct {
	t       *testing.T
	address string
	server  *Server

	mu    sync.Mutex     // guards inner
	inner []*net.TCPConn // connections to the session
}

// serveSlow publishes a port at which serve answers.
func serveSlow(t *testing.T, serve func(*net.TCPConn)) *slow {
	t.Helper()
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	go func() {
		for {
			c, err := inside.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{t: t, address: free.Addr().String()}
	free.Close()
	if s.server, err = Listen([]string{s.address + ":80"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Close)
	s.server.Serve(Session{Whole: func() bool { return true }, Dial: func(ctx context.Context, _ uint16) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", inside.Addr().String())
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inner = append(s.inner, c.(*net.TCPConn))
		context.AfterFunc(ctx, func() { s.ended(c) })
		return c, nil
	}})
	return s
}

// dial connects a client, for as long as the test lasts.
func (s *slow) dial() *net.TCPConn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func (s *slow) ask(c *net.TCPConn) {
	s.t.Helper()
	const question = "are you there?"
	if _, err := io.WriteString(c, question); err != nil {
		s.t.Fatalf("the question isn't sent: %v", err)
	}
	b := make([]byte, len(question))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != question {
		s.t.Fatalf("the answer is %q, %v", b, err)
	}
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// Clients come to a port in numbers and do what leaves a connection open. Others are served
// meanwhile, also one that is open since before, and no more are open than there may be.
func TestSlowClients(t *testing.T) {
	many := 600
	if os.Getenv("DIAPAUSE_LONG") != "" {
		many = 5000
	}
	for name, c := range map[string]struct {
		clients int
		serve   func(*net.TCPConn)
		do      func(*net.TCPConn) error
	}{
		"say nothing": {many, echo, func(*net.TCPConn) error { return nil }},
		"half close": {400, func(c *net.TCPConn) {
			echo(c)
			<-t.Context().Done() // its own end stays open
		}, (*net.TCPConn).CloseWrite},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveSlow(t, c.serve)
			before := s.dial()
			for i := range c.clients {
				if i%100 == 0 { // it is in use
					s.ask(before)
				}
				client := s.dial()
				if err := c.do(client); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				s.ask(s.dial())
			}
			s.ask(before)
			s.bounded()
		})
	}
}

// Clients ask for much and read nothing.
func TestClientsThatReadNothing(t *testing.T) {
	much := bytes.Repeat([]byte("much"), 16<<10)
	s := serveSlow(t, func(c *net.TCPConn) {
		question := make([]byte, 14)
		if n, err := io.ReadFull(c, question); err != nil && n == 0 {
			return
		}
		if question[0] != '!' {
			_, _ = c.Write(question)
			return
		}
		for {
			if _, err := c.Write(much); err != nil {
				return
			}
		}
	})
	for range connectionsAtOnce + 10 {
		client := s.dial()
		if _, err := io.WriteString(client, "!"); err != nil {
			t.Fatal(err)
		}
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	s.server.mu.Lock()
	for c := range s.server.open {
		if n := value(t, c, func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.SIOCOUTQNSD) }); n > 4*buffered {
			t.Errorf("%d bytes wait for a client that reads nothing", n)
		}
	}
	s.server.mu.Unlock()
	s.mu.Lock()
	for _, c := range s.inner {
		if n := value(t, c, func(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF) }); n > 4*buffered {
			t.Errorf("%d bytes of the session may wait for a client that reads nothing", n)
		}
	}
	s.mu.Unlock()
	for range 20 {
		s.ask(s.dial())
	}
	s.bounded()
}

// bounded waits until no more connections are open than there may be.
func (s *slow) bounded() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := len(s.inner)
		s.mu.Unlock()
		if n <= connectionsAtOnce {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%d connections to the session are open, more than %d", n, connectionsAtOnce)
		}
	}
}

// ended notes the end of a connection to the session.
func (s *slow) ended(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner = slices.DeleteFunc(s.inner, func(other *net.TCPConn) bool { return other == c })
}

// value asks for a figure of a connection; it is 0 of one that has ended.
func value(t *testing.T, c *net.TCPConn, ask func(fd int) (int, error)) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		got, err := ask(int(fd))
		if err != nil {
			t.Errorf("ask for the state of a connection: %v", err)
		}
		n = got
	})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	return n
}
