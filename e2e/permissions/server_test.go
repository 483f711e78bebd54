package permissions

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/natsconfig"
)

// patience bounds every wait; a passing test never waits so long.
const patience = 30 * time.Second

// fleet is a server that runs with the configuration as written.
type fleet struct {
	t   *testing.T
	dir string
	url string
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	return fleetWith(t, func(config []byte) []byte { return config })
}

// fleetWith runs with a configuration that is edited.
func fleetWith(t *testing.T, edit func([]byte) []byte) fleet {
	t.Helper()
	f := fleet{t: t, dir: t.TempDir()}
	w, err := natsconfig.Write(natsconfig.Options{
		Fleet: natsconfig.Fleet{Names: stream.NamesWith(""), Tenants: []schemas.Tenant{"acme", "other"}, Hosts: []schemas.HostID{"h1", "h2"}},
		Dir:   f.dir, StoreDir: filepath.Join(f.dir, "streams"), Listen: "127.0.0.1:0", DNSNames: []string{"localhost", "127.0.0.1"},
	})
	f.must(err)
	config, err := os.ReadFile(w.Config)
	f.must(err)
	f.must(os.WriteFile(w.Config, edit(config), 0o600))
	f.serve(w.Config)
	// The streams are made by the one user who may.
	js, err := jetstream.New(f.connect("system"))
	f.must(err)
	f.must(stream.Ensure(t.Context(), js, stream.NamesWith(""), 1))
	return f
}

func (f *fleet) serve(config string) {
	f.t.Helper()
	o, err := server.ProcessConfigFile(config)
	f.must(err)
	if !o.SyncAlways {
		f.t.Error("the server wouldn't sync every write")
	}
	o.NoSigs, o.NoLog, o.Port = true, true, server.RANDOM_PORT
	s, err := server.NewServer(o)
	f.must(err)
	s.Start()
	f.t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		f.t.Fatal("the NATS server doesn't start")
	}
	f.url = "tls://" + net.JoinHostPort("localhost", strconv.Itoa(s.Addr().(*net.TCPAddr).Port))
}

func (f fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f fleet) creds(user string) string { return filepath.Join(f.dir, "creds", user+".nk") }

func (f fleet) connect(user string, opts ...nats.Option) *nats.Conn {
	f.t.Helper()
	nc, err := natsconn.Connect(f.t.Context(), f.url, f.creds(user), user, opts...)
	f.must(err)
	f.t.Cleanup(nc.Close)
	return nc
}

func TestNoAccessWithoutCredentials(t *testing.T) {
	f := newFleet(t)
	if nc, err := natsconn.Connect(t.Context(), f.url, "", "stranger", nats.RootCAs(filepath.Join(f.dir, "creds", "ca.pem"))); err == nil {
		nc.Close()
		t.Error("a client without credentials is let in")
	}
	// Nor to a server that it doesn't know.
	copied := filepath.Join(t.TempDir(), "reader.nk")
	seed, err := os.ReadFile(f.creds("reader"))
	f.must(err)
	f.must(os.WriteFile(copied, seed, 0o600))
	if nc, err := natsconn.Connect(t.Context(), f.url, copied, "reader"); err == nil {
		nc.Close()
		t.Error("a client trusts a certificate of an unknown authority")
	}
}
