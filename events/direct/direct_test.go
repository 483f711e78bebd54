package direct

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
)

// limit bounds every wait; a passing test never waits so long.
const limit = time.Minute

// clock is the host's, which a test sets forward.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// serve runs a host as serveWith does, with what is usual.
func serve(t *testing.T) (*Server, *clock) {
	t.Helper()
	return serveWith(t, waitingLimit)
}

// serveWith runs a host that says which grant a client came with and then what it sends, in capitals.
func serveWith(t *testing.T, patience time.Duration) (*Server, *clock) {
	t.Helper()
	s, err := Listen(Options{Advertise: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	s.now, s.patience = c.now, patience
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(ctx, func(_ context.Context, conn *tunnel.Conn, g Grant) {
			_, _ = io.WriteString(conn, g.Hello.Name+"\n")
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(bytes.ToUpper(text))
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(limit):
			t.Error("the listener doesn't end")
		}
	})
	return s, c
}

func offer(t *testing.T, s *Server, name string, port uint16) attach.Offer {
	t.Helper()
	o, err := s.Offer(Grant{Hello: attach.Hello{Name: name}, UID: "u", Epoch: 1, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// talk uses a connection to its end.
func talk(t *testing.T, c *tunnel.Conn, say string) string {
	t.Helper()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDirect(t *testing.T) {
	s, _ := serve(t)
	for _, name := range []string{"one", "two"} {
		c, err := Dial(t.Context(), offer(t, s, name, 80), name, 80)
		if err != nil {
			t.Fatal(err)
		}
		if got := talk(t, c, "hello"); got != name+"\nHELLO" {
			t.Errorf("session %s says %q", name, got)
		}
	}
}

// A grant is good once, for a short time, for its session, its port and its host.
func TestGrants(t *testing.T) {
	s, c := serve(t)
	other, _ := serve(t)
	good := offer(t, s, "one", 80)
	conn, err := Dial(t.Context(), good, "one", 80)
	if err != nil {
		t.Fatal(err)
	}
	talk(t, conn, "")
	guessed := offer(t, s, "one", 80)
	guessed.Grant = hex.EncodeToString(make([]byte, secretSize))
	late := offer(t, s, "one", 80)
	elsewhere := offer(t, s, "one", 80)
	elsewhere.Address, elsewhere.Fingerprint = other.address, other.fingerprint
	for name, try := range map[string]struct {
		attach.Offer
		session string
		port    uint16
		before  func()
	}{
		"used":            {good, "one", 80, nil},
		"guessed":         {guessed, "one", 80, nil},
		"another session": {offer(t, s, "one", 80), "two", 80, nil},
		"another port":    {offer(t, s, "one", 80), "one", 81, nil},
		"another host":    {elsewhere, "one", 80, nil},
	} {
		if _, err := Dial(t.Context(), try.Offer, try.session, try.port); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
		// What was shown is gone, even if it would be good now.
		if _, err := Dial(t.Context(), try.Offer, "one", 80); !errors.Is(err, ErrRefused) {
			t.Errorf("%s, shown again: %v, want ErrRefused", name, err)
		}
	}
	c.advance(Lifetime)
	if _, err := Dial(t.Context(), late, "one", 80); !errors.Is(err, ErrRefused) {
		t.Errorf("expired: %v, want ErrRefused", err)
	}
}

// What has another key than the host's gets no grant.
func TestFingerprint(t *testing.T) {
	s, _ := serve(t)
	other, _ := serve(t)
	o := offer(t, s, "one", 80)
	moved := o
	moved.Address = other.address
	if _, err := Dial(t.Context(), moved, "one", 80); !errors.Is(err, ErrFingerprint) {
		t.Errorf("dial another host: %v, want ErrFingerprint", err)
	}
	c, err := Dial(t.Context(), o, "one", 80)
	if err != nil {
		t.Fatalf("the grant was shown to another host: %v", err)
	}
	talk(t, c, "")
}

// An address where nothing listens, and a client that is interrupted, end the dial.
func TestDialEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mute := attach.Offer{Address: l.Addr().String(), Grant: hex.EncodeToString(make([]byte, secretSize))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, mute, "one", 80)
		ended <- err
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a client that was interrupted is connected")
	}
	l.Close()
	if _, err := Dial(t.Context(), mute, "one", 80); err == nil {
		t.Error("it is connected to an address where nothing listens")
	}
	for _, o := range []attach.Offer{{Grant: "x"}, {Grant: "00"}} {
		if _, err := Dial(t.Context(), o, "one", 80); err == nil {
			t.Errorf("it takes the offer %+v", o)
		}
	}
}

// No more grants are kept than the bound, and those that expired make room.
func TestGrantsAreBounded(t *testing.T) {
	var g grants
	now := time.Now()
	for range maxGrants {
		if _, err := g.give(now, Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.give(now.Add(Lifetime-1), Grant{}); !errors.Is(err, errMany) {
		t.Errorf("one more: %v, want errMany", err)
	}
	if _, err := g.give(now.Add(Lifetime), Grant{}); err != nil || len(g.given) != 1 {
		t.Errorf("after they expired: %v, %d are kept", err, len(g.given))
	}
}

// Connections that show nothing are bounded, and don't keep a client out.
func TestIdleConnections(t *testing.T) {
	s, _ := serve(t)
	var idle []net.Conn
	for range 10_000 {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	c, err := Dial(t.Context(), offer(t, s, "one", 80), "one", 80)
	if err != nil {
		t.Fatal(err)
	}
	if got := talk(t, c, "x"); got != "one\nX" {
		t.Errorf("it says %q", got)
	}
	s.mu.Lock()
	n := s.waiting.Len()
	s.mu.Unlock()
	if n > maxWaiting {
		t.Errorf("%d connections are kept, more than %d", n, maxWaiting)
	}
	if err := idle[0].SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest still is connected: %v", err)
	}
}

// A connection without a grant is closed after a time, before its TLS and in it.
func TestWaitingEnds(t *testing.T) {
	s, _ := serveWith(t, 200*time.Millisecond)
	plain, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	closes(t, "nothing said", plain)
	part, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte{22, 3, 1, 1, 0, 1}); err != nil {
		t.Fatal(err)
	}
	closes(t, "a part of a handshake", part)
}

// What isn't TLS, is an older TLS, or shows nothing that is a grant is closed, with no word but TLS's own.
func TestNoise(t *testing.T) {
	s, _ := serve(t)
	noise := make([]byte, 100_000)
	rand.Read(noise)
	for name, text := range map[string][]byte{
		"noise": noise, "http": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "end": nil, "a length": {22, 3, 1, 255, 255, 1, 255, 255, 255},
	} {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = c.Write(text)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		closes(t, name, c)
	}
	if c, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("it takes TLS 1.2")
	}
	good, err := redemption{make([]byte, secretSize), 80, "one"}.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"noise in TLS": noise, "an older version": bytes.Replace(good, []byte(magic), []byte("DIADIR\x00"), 1), "a part": good[:20], "an unknown grant": good,
	} {
		c, err := tls.Dial("tcp", s.address, pinned(s.fingerprint))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = c.Write(text)
			_ = c.CloseWrite()
		}()
		closes(t, name, c)
	}
}

// closes wants the host to close a connection. An alert of TLS is all that it may say.
func closes(t *testing.T, name string, c net.Conn) {
	t.Helper()
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s: the connection stays open", name)
	}
	if _, inside := c.(*tls.Conn); len(text) > 0 && (inside || text[0] != 21) {
		t.Errorf("%s: it says %q", name, text)
	}
}

// An address must be one to dial, and one that can be listened at.
func TestListenRefuses(t *testing.T) {
	taken, _ := serve(t)
	for _, o := range []Options{{Advertise: "host"}, {Advertise: taken.address}, {Advertise: "host.example:1", Listen: "127.0.0.1:99999"}} {
		if s, err := Listen(o); err == nil {
			s.listener.Close()
			t.Errorf("it listens with %+v", o)
		}
	}
}
