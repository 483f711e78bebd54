package stream_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// A server takes subjects whose messages no client can read: who hears one loses the connection. Readers of activity
// pass over it, and the connection of all else stays.
func TestTornSubjects(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	js := natstest.Connect(t, s.ClientURL(), nats.ReconnectWait(10*time.Millisecond))
	if err := stream.Ensure(t.Context(), js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	tear := func(n int) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(s.ClientURL(), "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The last is too short for the stream, and heard beside it.
		fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nPUB diapause.v1.activity.acme.s.input\r%d 0\r\n\r\nPUB diapause.v1.activity.acme\r%d.s 0\r\n\r\nPING\r\n", n, n)
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		for b, text := make([]byte, 1<<12), ""; !strings.Contains(text, "PONG"); {
			n, err := c.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b[:n])
		}
	}
	publish := func(kind string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), "diapause.v1.activity.acme.s."+kind, nil); err != nil {
			t.Fatal(err)
		}
	}
	tear(0)
	publish("http")
	heard, bad := make(chan string, 100), make(chan error, 100)
	fn := func(h stream.Heard) {
		switch {
		case h.Bad != nil:
			bad <- h.Bad
		case h.Message.Seq > 0:
			heard <- string(h.Message.Source.Kind)
		}
	}
	defer read(t, js, false, fn)()
	hears := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("it hears %s, want %s", got, want)
			}
		case <-time.After(limit):
			t.Fatalf("it doesn't hear %s", want)
		}
	}
	hears("http")
	for n := range 3 {
		tear(n + 1)
		publish([]string{"input", "exec", "heartbeat"}[n])
		hears([]string{"input", "exec", "heartbeat"}[n])
	}
	if len(bad) < 4 {
		t.Errorf("%d messages were no activity, want 4", len(bad))
	}
	if n := js.Conn().Stats().Reconnects; n > 0 {
		t.Errorf("the connection of others was lost %d times", n)
	}
}

// Handlers of a connection may be set while another is made like it.
func TestApartWhileHandlersAreSet(t *testing.T) {
	js := natstest.Connect(t, natstest.Serve(t).ClientURL())
	nc := js.Conn()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			nc.SetClosedHandler(func(*nats.Conn) {})
		}
	}()
	own, end, err := stream.Apart(js)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if own.Conn() == nc || own.Conn().ConnectedUrl() != nc.ConnectedUrl() {
		t.Errorf("it hears over %v", own.Conn().ConnectedUrl())
	}
}
