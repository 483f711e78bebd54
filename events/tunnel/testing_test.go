package tunnel

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const subject = "test.tunnel"

// patience bounds every wait of these tests; a passing test never waits so long.
const patience = 60 * time.Second

func startServer(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server did not get ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func connect(t testing.TB, s *server.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// ends is a connection, each end with a NATS connection of its own.
type ends struct {
	server             *server.Server
	dialerNC, listenNC *nats.Conn
	listener           *Listener
	dialer, accepted   *Conn
}

func open(t testing.TB, tm tempo, opts ...nats.Option) *ends {
	t.Helper()
	s := startServer(t)
	e := &ends{server: s, dialerNC: connect(t, s, opts...), listenNC: connect(t, s, opts...)}
	l, err := listen(e.listenNC, subject, tm)
	if err != nil {
		t.Fatal(err)
	}
	e.listener = l
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if e.dialer, err = dial(ctx, e.dialerNC, subject, []byte("hello"), tm); err != nil {
		t.Fatal(err)
	}
	if e.accepted, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(patience)
	for _, c := range []net.Conn{e.dialer, e.accepted} {
		if err := c.SetDeadline(limit); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// hasty notices a vanished peer within a second.
func hasty() tempo {
	return tempo{beat: 50 * time.Millisecond, patience: 20, grace: 50 * time.Millisecond}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
