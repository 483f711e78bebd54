package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Of a connection to a server of one's own without TLS there is a warning.
func TestConnectionWithoutTLS(t *testing.T) {
	ns, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server doesn't start")
	}
	var said bytes.Buffer
	nc, err := connect(t.Context(), NATS{URL: ns.ClientURL()}, "test", slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if text := said.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "the connection to NATS has no TLS") {
		t.Errorf("it says %q", text)
	}
}
