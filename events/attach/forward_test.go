package attach

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// tcpPair gives both ends of a TCP connection.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a, b = c.(*net.TCPConn), d.(*net.TCPConn)
	for _, c := range []*net.TCPConn{a, b} {
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// forwarding is a forwarded connection: user is the end of who connected, server that of what
// listens in the session, and way is what lies between.
type forwarding struct {
	killed       *atomic.Bool // that the session was
	user, server *net.TCPConn
	way          net.Conn
	client, shim chan error
}

func forward(t *testing.T) forwarding {
	t.Helper()
	f := forwarding{killed: new(atomic.Bool), client: make(chan error, 1), shim: make(chan error, 1)}
	var local, inner *net.TCPConn
	f.user, local = tcpPair(t)
	inner, f.server = tcpPair(t)
	ours, theirs := tcpPair(t)
	f.way = theirs
	go func() {
		r, err := ReadRequest(theirs)
		if err == nil && (r.Op != OpForward || r.Port != 8080) {
			err = errors.New("it isn't the request")
		}
		if err == nil {
			err = ServeForward(theirs, inner, func() bool { return !f.killed.Load() })
		}
		theirs.Close()
		f.shim <- err
	}()
	go func() { f.client <- Forward(ours, 8080, func() (net.Conn, error) { return local, nil }) }()
	return f
}

func (f forwarding) ended(t *testing.T, want error) {
	t.Helper()
	for who, c := range map[string]chan error{"client": f.client, "shim": f.shim} {
		select {
		case err := <-c:
			if !errors.Is(err, want) {
				t.Errorf("the %s ends with %v, want %v", who, err, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the %s doesn't end", who)
		}
	}
}

// Both sides send much at once, each ends its direction, and the other arrives whole.
func TestForwardBothWays(t *testing.T) {
	f := forward(t)
	up, down := make([]byte, 3<<20), make([]byte, 5<<20+1)
	rand.Read(up)
	rand.Read(down)
	type got struct {
		sum [32]byte
		err error
	}
	talk := func(c *net.TCPConn, say []byte, heard chan<- got) {
		go func() {
			_, _ = c.Write(say)
			_ = c.CloseWrite()
		}()
		b, err := io.ReadAll(c)
		heard <- got{sha256.Sum256(b), err}
	}
	atServer, atUser := make(chan got, 1), make(chan got, 1)
	go talk(f.server, down, atServer)
	go talk(f.user, up, atUser)
	if g := <-atServer; g.err != nil || g.sum != sha256.Sum256(up) {
		t.Errorf("what was sent to the session isn't what arrives: %v", g.err)
	}
	if g := <-atUser; g.err != nil || g.sum != sha256.Sum256(down) {
		t.Errorf("what the session sent isn't what arrives: %v", g.err)
	}
	f.ended(t, nil)
}

// The session answers after it has read the end of the question.
func TestForwardHalfClosed(t *testing.T) {
	f := forward(t)
	go func() {
		b, _ := io.ReadAll(f.server)
		_, _ = f.server.Write(bytes.ToUpper(b))
		f.server.Close()
	}()
	if _, err := f.user.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := f.user.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f.user); err != nil || string(b) != "QUESTION" {
		t.Errorf("the answer is %q, %v", b, err)
	}
	f.ended(t, nil)
}

// A user of a connection that ended early gets an error, and no end that looks like the right one.
func TestForwardReset(t *testing.T) {
	for name, end := range map[string]func(f forwarding){
		"the session resets it": func(f forwarding) { reset(f.server) },
		"the way is lost":       func(f forwarding) { f.way.Close() },
		"the session is killed": func(f forwarding) { f.killed.Store(true); f.server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			f := forward(t)
			if _, err := f.server.Write([]byte("a part")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(f.user, make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			end(f)
			if b, err := io.ReadAll(f.user); err == nil {
				t.Errorf("the user reads %q and then a clean end", b)
			}
			f.ended(t, ErrReset)
		})
	}
	t.Run("the way is lost when the session has sent all", func(t *testing.T) {
		f := forward(t)
		if err := f.server.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f.user); err != nil || len(b) > 0 {
			t.Fatalf("the user reads %q, %v", b, err)
		}
		f.way.Close()
		if b, err := io.ReadAll(f.server); err == nil {
			t.Errorf("the session reads %q and then a clean end", b)
		}
		f.ended(t, ErrReset)
	})
	t.Run("the user resets it", func(t *testing.T) {
		f := forward(t)
		if _, err := f.user.Write([]byte("a part")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(f.server, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		reset(f.user)
		if b, err := io.ReadAll(f.server); err == nil {
			t.Errorf("the session reads %q and then a clean end", b)
		}
		f.ended(t, ErrReset)
	})
}

func TestForwardRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(net.Conn) error
		want   error
	}{
		"refused": {func(c net.Conn) error { return WriteRefused(c, "nothing listens") }, RefusedError("nothing listens")},
		"failed":  {func(c net.Conn) error { return WriteError(c, "it is being captured") }, RemoteError("it is being captured")},
		"lost":    {func(c net.Conn) error { return nil }, ErrLost},
	} {
		ours, theirs := tcpPair(t)
		go func() {
			_, _ = ReadRequest(theirs)
			_ = c.answer(theirs)
			theirs.Close()
		}()
		err := Forward(ours, 8080, func() (net.Conn, error) { return nil, errors.New("it is opened") })
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A client that is offered a direct connection goes on over that one, or where it is if it can't be made.
func TestForwardDirect(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		ours, theirs := tcpPair(t)
		near, far := tcpPair(t)
		user, local := tcpPair(t)
		inner, server := tcpPair(t)
		answered := make(chan error, 1)
		go func() {
			answered <- func() error {
				if _, err := ReadRequest(theirs); err != nil {
					return err
				}
				if err := WriteJSON(theirs, FrameOffer, Offer{Address: "there", Grant: "secret"}); err != nil {
					return err
				}
				way := theirs
				switch kind, _, err := ReadFrame(theirs); {
				case reachable && errors.Is(err, io.EOF):
					way = far
				case reachable || err != nil || kind != FrameStay:
					return fmt.Errorf("after the offer it says %q: %w", kind, err)
				}
				go func() {
					_, _ = server.Write([]byte("hello"))
					server.Close()
				}()
				return ServeForward(way, inner, func() bool { return true })
			}()
		}()
		go func() {
			b, _ := io.ReadAll(user)
			if string(b) != "hello" {
				t.Errorf("the user reads %q", b)
			}
			user.Close()
		}()
		dial := func(o Offer) (net.Conn, error) {
			if o != (Offer{Address: "there", Grant: "secret"}) {
				t.Errorf("the offer is %+v", o)
			}
			if reachable {
				return near, nil
			}
			return nil, errors.New("it can't be reached")
		}
		if err := ForwardDirect(ours, 8080, dial, func() (net.Conn, error) { return local, nil }); err != nil {
			t.Errorf("reachable %t: %v", reachable, err)
		}
		if err := <-answered; err != nil {
			t.Errorf("reachable %t: the host: %v", reachable, err)
		}
	}
}

// An offer that wasn't asked for, one that can't be read, and a second one are no answers.
func TestForwardDirectRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		dial    func(Offer) (net.Conn, error)
	}{
		"not asked for":  {`{}`, nil},
		"can't be read":  {`{`, func(Offer) (net.Conn, error) { return nil, errors.New("it is dialed") }},
		"another offers": {`{}`, func(Offer) (net.Conn, error) { return nil, errors.New("no") }},
	} {
		ours, theirs := tcpPair(t)
		go func() {
			_, _ = ReadRequest(theirs)
			for range 2 {
				_ = WriteFrame(theirs, FrameOffer, []byte(c.payload))
			}
			_, _ = io.Copy(io.Discard, theirs)
			theirs.Close()
		}()
		err := ForwardDirect(ours, 8080, c.dial, func() (net.Conn, error) { return nil, errors.New("it is opened") })
		if err == nil || err.Error() == "it is opened" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
