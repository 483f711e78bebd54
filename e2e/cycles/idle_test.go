package cycles

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/embedded"
)

// idleRequests is what a daemon without sessions may ask JetStream and write to it between three
// renewals of its lease, which are 10 s apart: it is 18 on a quiet machine. What it did four
// times a second instead would be 80 alone.
const idleRequests = 50

// A daemon without sessions waits for events instead of asking for them.
func TestIdleDaemonAsksLittle(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	d := daemon(ctx, t)
	creds := filepath.Join(d.Data(), "creds")
	nc, err := natsconn.Connect(ctx, natsURL(t, d), embedded.CredsFile(creds, embedded.UserSystem), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var asked atomic.Int64
	counts := func(*nats.Msg) { asked.Add(1) }
	renewals := make(chan struct{}, 10)
	for subject, fn := range map[string]nats.MsgHandler{
		"$JS.API.>": counts, "$KV.>": counts,
		stream.NamesWith("").LeaseSubject(schemas.HostID(d.Host())): func(*nats.Msg) { renewals <- struct{}{} },
	} {
		if _, err := nc.Subscribe(subject, fn); err != nil {
			t.Fatal(err)
		}
	}
	renewed := func() {
		select {
		case <-renewals:
		case <-ctx.Done():
			t.Fatal("the host's lease isn't renewed")
		}
	}
	renewed() // all is settled
	before := asked.Load()
	renewed()
	renewed()
	if n := asked.Load() - before; n > idleRequests {
		t.Errorf("%d requests and writes in two terms between renewals, want %d at most", n, idleRequests)
	} else {
		t.Logf("%d requests and writes", n)
	}
}

// natsURL is where a daemon's NATS server is, which it prints when it is ready.
func natsURL(t *testing.T, d *local.Daemon) string {
	t.Helper()
	for _, word := range strings.Fields(d.Output()) {
		if strings.HasPrefix(word, "nats://") {
			return strings.TrimSuffix(word, ",")
		}
	}
	t.Fatalf("the daemon doesn't say where NATS is:\n%s", d.Output())
	return ""
}
