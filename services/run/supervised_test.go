package run

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/services/metrics"
)

// manager is a service manager that hears what it is told.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func listen(t *testing.T, watchdog string) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	return &manager{t, conn}
}

// hear gives the next message that isn't one of those.
func (m *manager) hear(but ...string) string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 1000)
	for {
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.Fatal(err)
		}
		if said := strings.TrimSpace(string(b[:n])); !slices.Contains(but, said) {
			return said
		}
	}
}

// drain throws away what was said so far.
func (m *manager) drain() {
	b := make([]byte, 1000)
	for m.conn.SetReadDeadline(time.Now()) == nil {
		if _, err := m.conn.Read(b); err != nil {
			return
		}
	}
}

const alive = "WATCHDOG=1"

// A process says when it is ready, that it is alive, and that it stops.
func TestManagerIsTold(t *testing.T) {
	m := listen(t, "300000")
	ctx, stop := context.WithCancel(t.Context())
	g := gauges{metrics.New("1.0.0"), metrics.NewHealth(), metrics.NewHealth()}
	ready, done := make(chan struct{}), make(chan error)
	go func() {
		done <- g.supervised(ctx, func(ctx context.Context) error {
			<-ready
			g.started()
			<-ctx.Done()
			return nil
		})
	}()
	if said := m.hear(); said != alive {
		t.Errorf("before it is ready it says %q, want %q alone", said, alive)
	}
	close(ready)
	if said := m.hear(alive); said != "READY=1" {
		t.Errorf("it says %q, want READY=1", said)
	}
	if said := m.hear(); said != alive {
		t.Errorf("it says %q, want %q", said, alive)
	}
	stop()
	if said := m.hear(alive); said != "STOPPING=1" {
		t.Errorf("it says %q, want STOPPING=1", said)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The watchdog isn't fed while a loop doesn't answer, and is when it does again.
func TestWatchdogStarves(t *testing.T) {
	m := listen(t, "30000")
	g := gauges{metrics.New("1.0.0"), metrics.NewHealth(), metrics.NewHealth()}
	asked := make(chan chan struct{})
	g.answers("loop", func(ctx context.Context) error {
		answer := make(chan struct{})
		select {
		case asked <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-answer:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	go g.supervised(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
	close(<-asked)
	if said := m.hear(); said != alive {
		t.Fatalf("it says %q, want %q", said, alive)
	}
	<-asked // and it isn't answered
	m.drain()
	next := <-asked // so the look before is over
	if err := m.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := m.conn.Read(b); err == nil {
		t.Errorf("a loop doesn't answer, and the watchdog is told %q", b[:n])
	}
	close(next)
	if said := m.hear(); said != alive {
		t.Errorf("the loop answers again, and it says %q, want %q", said, alive)
	}
}

// A part that isn't ready since NATS is away doesn't hang: a new process wouldn't find it either.
func TestWatchdogAsksLoopsAlone(t *testing.T) {
	m := listen(t, "30000")
	g := gauges{metrics.New("1.0.0"), metrics.NewHealth(), metrics.NewHealth()}
	g.health.Set("nats", func(context.Context) string { return "not connected to NATS" })
	go g.supervised(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
	if said := m.hear(); said != alive {
		t.Errorf("it says %q, want %q", said, alive)
	}
}
