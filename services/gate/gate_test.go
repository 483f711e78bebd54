package gate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// echo is a server that says a line and then what it hears.
func echo() (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer ours.Close()
		if _, err := io.WriteString(ours, "INFO {\"a\":1,\"tls_available\":true} \r\n"); err != nil {
			return
		}
		_, _ = io.Copy(ours, ours) // how it ends is for the client to see
	}()
	return theirs, nil
}

// start serves a gate before echo, and gives a way to connect to it.
func start(t *testing.T, o Options, change func(*Gate)) (dial func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Connect, o.Log = echo, slog.New(slog.DiscardHandler)
	if o.All == 0 {
		o.All = 100
	}
	if o.PerUser == 0 {
		o.PerUser = 100
	}
	g := New(l, o)
	if change != nil {
		change(g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(limit):
			t.Error("it doesn't end with its context")
		}
	})
	return func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

const offered, plain = "INFO {\"a\":1,\"tls_available\":true} \r\n", "INFO {\"a\":1}\r\n"

// says fails the test unless the other side says a text next.
func says(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("it says %q, %v; want %q", got, err, want)
	}
}

func refused(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection too many hears %d bytes, %v; want its end", n, err)
	}
}

func TestBothWays(t *testing.T) {
	for hello, o := range map[string]Options{offered: {}, plain: {Plain: true}} {
		c := start(t, o, nil)()
		says(t, c, hello)
		text := strings.Repeat("some text", 100_000)
		go func() { _, _ = io.WriteString(c, text) }()
		says(t, c, text)
	}
}

func TestOwner(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		if uid, err := ownerOf(there); err != nil || uid != UID(os.Getuid()) {
			t.Errorf("at %s the user is %d, %v; want %d", host, uid, err, os.Getuid())
		}
	}
	if uid, err := owner(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")); err == nil || uid != Unknown {
		t.Errorf("a connection that isn't there is of user %d, %v", uid, err)
	}
}

// What runs in sessions, which root passes on, takes none of root's connections; and others don't take its.
func TestConnectionsFromInside(t *testing.T) {
	uid := make(chan UID, 1)
	var at net.Addr
	start(t, Options{PerUser: 1, PerInside: 2, All: 5}, func(g *Gate) {
		at, g.owner = g.listen.Addr(), func(net.Conn) (UID, error) { return <-uid, nil }
	})
	from := func(u UID, source string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		c, err := d.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		uid <- u
		return c
	}
	inside := schemas.InsideSource().String()
	says(t, from(0, inside), offered)
	says(t, from(0, inside), offered)
	refused(t, from(0, inside))
	says(t, from(0, "127.0.0.1"), offered)
	refused(t, from(0, "127.0.0.3"))
	says(t, from(1, inside), offered)
	refused(t, from(1, inside))
}

// One user's connections don't take those of another.
func TestConnectionsOfAUser(t *testing.T) {
	uid := make(chan UID, 1)
	dial := start(t, Options{PerUser: 2, All: 4}, func(g *Gate) {
		g.owner = func(net.Conn) (UID, error) { return <-uid, nil }
	})
	as := func(u UID) net.Conn {
		c := dial()
		uid <- u
		return c
	}
	first := as(1)
	says(t, first, offered)
	says(t, as(1), offered)
	refused(t, as(1))
	says(t, as(2), offered)
	first.Close()
	for end := time.Now().Add(limit); ; { // its place is free when the gate has seen that
		c := as(1)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the place of a closed connection isn't free again")
		}
	}
	says(t, as(3), offered)
	refused(t, as(4)) // four are open
}

// What is above the rate waits, and a new connection is no way around the rate of a user.
func TestRates(t *testing.T) {
	for name, o := range map[string]Options{
		"of a connection": {ConnectionRate: 100 << 10},
		"of a user":       {UserRate: 100 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			dial := start(t, o, nil)
			part := strings.Repeat("x", 100<<10)
			began := time.Now()
			c := dial()
			says(t, c, offered)
			for n := range 3 { // the first is the burst
				if n > 0 && o.UserRate > 0 {
					c.Close()
					c = dial()
					says(t, c, offered)
				}
				go func() { _, _ = io.WriteString(c, part) }()
				says(t, c, part)
			}
			// Time may only be too long on a slow machine, never too short.
			if took := time.Since(began); took < 1900*time.Millisecond {
				t.Errorf("300 KiB took %s at 100 KiB a second after a burst of as much", took)
			}
		})
	}
}

func TestOnlyTLS(t *testing.T) {
	dial := start(t, Options{TLS: true}, nil)
	c := dial()
	says(t, c, offered)
	if _, err := io.WriteString(c, strings.Repeat("CONNECT", 10_000)); err != nil {
		t.Fatal(err)
	}
	says(t, c, wantsTLS)
	refused(t, c)
	c = dial()
	says(t, c, offered)
	if _, err := io.WriteString(c, "\x16more"); err != nil {
		t.Fatal(err)
	}
	says(t, c, "\x16more")
}

// A server that doesn't speak as NATS does isn't passed on.
func TestUnknownServer(t *testing.T) {
	for _, hello := range []string{"HELLO\r\n", "INFO {\r\n", "INFO " + strings.Repeat("x", maxHello), ""} {
		dial := start(t, Options{Plain: true}, func(g *Gate) {
			g.o.Connect = func() (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					_, _ = io.WriteString(ours, hello) // the gate ends it
					ours.Close()
				}()
				return theirs, nil
			}
		})
		refused(t, dial())
	}
}

// A gate that refuses ends what is open, takes nothing new, and takes connections again.
func TestRefuse(t *testing.T) {
	var g *Gate
	dial := start(t, Options{}, func(made *Gate) { g = made })
	open := dial()
	says(t, open, offered)
	g.Refuse(errors.New("there is no room"))
	refused(t, open)
	refused(t, dial())
	g.Refuse(nil)
	says(t, dial(), offered)
}
