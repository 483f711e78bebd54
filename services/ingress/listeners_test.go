package ingress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// occupied listens at an address whose port isn't one that the kernel gives to connections.
func occupied(t *testing.T) net.Listener {
	t.Helper()
	for range 1000 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))); err == nil {
			return l
		}
	}
	t.Fatal("no port is free")
	return nil
}

// listenersBench is the listeners of a part, whose records the test sends.
func listenersBench(t *testing.T, o Options) (l *Listeners, send func(schemas.ListenerRecord)) {
	t.Helper()
	l = NewListeners(o)
	l.again = time.Millisecond
	records, taken, ended := make(chan schemas.ListenerRecord), make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- l.Serve(ctx, func(ctx context.Context, take func(schemas.ListenerRecord)) error {
			for {
				select {
				case r := <-records:
					take(r)
					taken <- struct{}{}
				case <-ctx.Done():
					return nil
				}
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the listeners end with %v", err)
		}
	})
	return l, func(r schemas.ListenerRecord) {
		records <- r
		<-taken
	}
}

// becomes waits until the one listener of a part is in a state, which has a word in its error.
func becomes(t *testing.T, l *Listeners, s schemas.ListenerState, word string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		all := l.States()
		if len(all) == 1 && all[0].State == s && strings.Contains(all[0].Error, word) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it comes to be %+v, want %s", all, s)
		}
	}
}

func TestListeners(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	l, send := listenersBench(t, f.options())
	other := occupied(t)
	r := schemas.ListenerRecord{Listener: schemas.Listener{Part: "up", Address: other.Addr().String(), Name: "acme/web", UID: "u1", Port: 80}, Change: "1"}
	send(r)
	becomes(t, l, schemas.ListenerFailed, "in use")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	becomes(t, l, schemas.ListenerOpen, "")
	b := browser{t: t, address: r.Address}
	if got, err := b.say("hello"); got != "HELLO" || err != nil {
		t.Errorf("it answers %q, %v", got, err)
	}
	if f.asked("ensure") != 1 || f.asked("authorize") != 0 {
		t.Errorf("asked was %v", f.calls)
	}
	send(r) // told again, it goes on
	if got, err := b.say("again"); got != "AGAIN" || err != nil {
		t.Errorf("told again, it answers %q, %v", got, err)
	}

	// A session that has come to have the name is another one, and isn't resumed.
	f.set(schemas.Suspended)
	ensured := f.asked("ensure")
	r.UID, r.Change = "u2", "2"
	send(r)
	becomes(t, l, schemas.ListenerOpen, "")
	if got, err := b.say("hello"); err == nil || got != "" {
		t.Errorf("another session answers %q", got)
	}
	if n := f.asked("ensure"); n != ensured {
		t.Errorf("another session was resumed %d times", n-ensured)
	}

	r.Removed, r.Change = time.Now(), "3"
	send(r)
	if all := l.States(); len(all) != 0 {
		t.Errorf("after its end there are %+v", all)
	}
	free, err := net.Listen("tcp", r.Address)
	if err != nil {
		t.Fatalf("its address isn't free: %v", err)
	}
	if err := free.Close(); err != nil {
		t.Error(err)
	}
}

// The connections of a listener end with it.
func TestConnectionsEndWithTheirListener(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	l, send := listenersBench(t, f.options())
	free := occupied(t)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	r := schemas.ListenerRecord{Listener: schemas.Listener{Part: "up", Address: free.Addr().String(), Name: "acme/web", UID: "u1", Port: 80}, Change: "1"}
	send(r)
	becomes(t, l, schemas.ListenerOpen, "")
	c, err := net.Dial("tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); f.leases() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is no lease")
		}
	}
	r.Removed, r.Change = time.Now(), "2"
	send(r)
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("the connection goes on, with %d bytes", n)
	}
	if n := f.leases(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

func TestListenerSendsPROXYHeaders(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	l, send := listenersBench(t, f.options())
	free := occupied(t)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	both := slices.Clone(schemas.ProxyProtocols())
	send(schemas.ListenerRecord{Listener: schemas.Listener{Part: "up", Address: free.Addr().String(), Name: "acme/web", UID: "u1", Port: 80, Proxy: both}, Change: "1"})
	becomes(t, l, schemas.ListenerOpen, "")
	got, err := browser{t: t, address: free.Addr().String()}.say("PROXY TCP4 203.0.113.9 203.0.113.1 4660 22\r\nhello")
	if err != nil || !strings.HasPrefix(got, "\r\n\r\n\x00\r\nQUIT\n") || !strings.Contains(got, "\x124") || !strings.HasSuffix(got, "HELLO") {
		t.Errorf("the session gets %q, %v", got, err)
	}
}
