package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// shout answers a text in capitals when it has read its end, after what its first line says of the client.
func shout(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if text, err := io.ReadAll(c); err == nil {
					_, _ = io.WriteString(c, strings.ToUpper(string(text)))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// relay serves a port of the session, and gives its address.
func relay(t *testing.T, f *fleet, o Options, change func(*TCPServer)) browser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewTCPServer(o, Target{Name: web, Port: 80})
	if change != nil {
		change(s)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ends with %v", err)
		}
		if n := f.leases(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
	return browser{t: t, address: l.Addr().String()}
}

// say sends a text and its end, and gives the answer.
func (b browser) say(text string) (string, error) {
	b.t.Helper()
	to, err := net.Dial("tcp", b.address)
	if err != nil {
		return "", err // it may be reset as soon
	}
	defer to.Close()
	c := to.(*net.TCPConn)
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		b.t.Fatal(err)
	}
	_, wrote := io.WriteString(c, text)
	closed := c.CloseWrite()
	got, err := io.ReadAll(c)
	return string(got), errors.Join(wrote, closed, err) // whichever finds a reset first
}

// A connection resumes the session, is a lease as long as it is open, and each direction ends by itself.
func TestTCP(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	f.dials = []error{ErrRefused, errNotHere}
	b := relay(t, f, f.options(), nil)
	if got, err := b.say("hello"); err != nil || got != "HELLO" {
		t.Errorf("it answers %q, %v", got, err)
	}
	if why := f.whys[0].String(); why != "connection to port 80 (tcp by ann)" {
		t.Errorf("it was resumed for %q", why)
	}
	c := b.dial()
	until(t, "the silent connection is there, and a lease", func() bool { return f.open() == 2 && f.leases() == 1 })
	f.set(schemas.Suspended)
	if got, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a suspend it reads %q, %v, want a reset", got, err)
	}
	until(t, "its lease ends", func() bool { return f.leases() == 0 })
	if got, err := b.say("again"); err != nil || got != "AGAIN" {
		t.Errorf("it answers %q, %v", got, err)
	}
}

// What connects and closes at once is a probe. What may not connect, or can't be carried, is reset.
func TestTCPRefused(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	patient := f.options()
	patient.Budgets.Probe = time.Minute
	b := relay(t, f, patient, nil)
	b.dial().Close()
	until(t, "it is asked who that is", func() bool { return f.asked("authorize") == 1 })
	if got, err := b.say(""); len(got) > 0 {
		t.Errorf("a probe reads %q, %v", got, err)
	}
	if n := f.asked("ensure") + f.asked("hold"); n > 0 {
		t.Error("a probe is a use")
	}
	o := f.options()
	o.Policy = Policy{}
	if got, err := relay(t, f, o, nil).say("hello"); len(got) > 0 || f.asked("ensure") > 0 {
		t.Errorf("without leave to wake it answers %q, %v", got, err)
	}
	f.set(schemas.Running)
	if got, err := relay(t, f, o, nil).say("hello"); got != "HELLO" || err != nil || f.asked("ensure") > 0 {
		t.Errorf("without leave to wake, a session that runs answers %q, %v", got, err)
	}
	f.set(schemas.Suspended)
	f.mu.Lock()
	f.failure = schemas.FailedError("", "damaged")
	f.mu.Unlock()
	if got, err := b.say("hello"); err == nil || got != "" {
		t.Errorf("a session that isn't to be had answers %q, %v, want a reset", got, err)
	}
	f.mu.Lock()
	f.denied = errors.New("not yours")
	f.mu.Unlock()
	asked := f.asked("ensure")
	if got, err := b.say("hello"); err == nil || f.asked("ensure") != asked {
		t.Errorf("who may not connect gets %q, %v", got, err)
	}
}

// A load balancer says who the client is, and the session is told.
func TestProxyProtocol(t *testing.T) {
	f := newFleet(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f.server = l.Addr().String()
	b := relay(t, f, f.options(), func(s *TCPServer) { s.Told, s.Tells = true, true })
	c := b.dial()
	fmt.Fprint(c, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 22\r\nhello\n")
	up, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	if err := up.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	const head = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x07"
	got, err := bufio.NewReader(up).ReadString('h')
	if err != nil || !strings.HasPrefix(got, head) || !strings.HasSuffix(got, "h") || len(got) != 28+1 {
		t.Errorf("the session gets %q, %v", got, err)
	}
	if why := f.whys[0].String(); why != "connection to port 80 (tcp by ann for 203.0.113.7:4711)" {
		t.Errorf("it was resumed for %q", why)
	}
	if got, err := b.say("hello without a header\n"); err == nil {
		t.Errorf("without a header it answers %q, %v, want a reset", got, err)
	}
}

// Beyond its most connections a listener takes none until one ends, and it reaches the session that it is for alone.
func TestBounds(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	b := relay(t, f, f.options(), func(s *TCPServer) { s.Most = 1 })
	first := b.dial()
	until(t, "the first connection is a lease", func() bool { return f.leases() == 1 })
	second := make(chan string)
	go func() {
		got, err := b.say("hello")
		second <- fmt.Sprint(got, err)
	}()
	select {
	case got := <-second:
		t.Errorf("beside the first one the second gets %s", got)
	case <-time.After(50 * time.Millisecond): // it can't be told from one that is slow
	}
	first.Close()
	if got := <-second; got != "HELLO<nil>" {
		t.Errorf("the second one gets %s", got)
	}
	g := newFleet(t, nil)
	g.server = shout(t)
	if got, err := relay(t, g, g.options(), func(s *TCPServer) { s.UID = "another" }).say("hello"); got != "" || err == nil {
		t.Errorf("another session answers %q, %v", got, err)
	}
}
