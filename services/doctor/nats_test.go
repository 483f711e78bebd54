package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/embedded"
)

// streams lists the streams of a server.
func streams(t *testing.T, url, creds string) []string {
	t.Helper()
	nc, err := natsconn.Connect(t.Context(), url, creds, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		all = append(all, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNATSOfItsOwn(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	r := NATS(Server{Data: data}, scratch(t, data)).Run(t.Context())
	want(t, "nothing runs", r, OK, "started for the purpose")
	if r.Measured["write_us"] <= 0 {
		t.Errorf("measured %v", r.Measured)
	}
}

// serving is a data directory whose embedded server runs.
func serving(t *testing.T) (*datadir.Dir, *embedded.Server) {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	srv, err := embedded.Start(t.Context(), embedded.Options{StoreDir: d.Join("nats"), CredsDir: d.Join("creds")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	if err := d.Serving(srv.SecureURL(), srv.URL(), embedded.CredsFile(d.Join("creds"), embedded.UserClient)); err != nil {
		t.Fatal(err)
	}
	return d, srv
}

func TestNATSOfTheUpThatRuns(t *testing.T) {
	d, srv := serving(t)
	s := Server{Data: d.Path()}
	want(t, "ours", NATS(s, scratch(t, d.Path())).Run(t.Context()), OK, "that runs")
	if left := streams(t, srv.SecureURL(), embedded.CredsFile(d.Join("creds"), embedded.UserSystem)); len(left) > 0 {
		t.Errorf("streams are left: %v", left)
	}
	want(t, "its port", Port(s, "127.0.0.1:4222").Run(t.Context()), OK, "held by our own")
}

func TestNATSThatWasNamed(t *testing.T) {
	d, srv := serving(t)
	creds := func(u embedded.User) string { return embedded.CredsFile(d.Join("creds"), u) }
	system := Server{URL: srv.SecureURL(), Creds: creds(embedded.UserSystem)}
	want(t, "may all", NATS(system, nil).Run(t.Context()), OK, srv.SecureURL())
	want(t, "its port", Port(system, "127.0.0.1:4222").Run(t.Context()), Skipped, "no embedded server")
	// Without permission there is no answer, which isn't waited for until the end.
	began := time.Now()
	client := Server{URL: srv.SecureURL(), Creds: creds(embedded.UserClient)}
	r := NATS(client, nil).Run(t.Context())
	want(t, "may not", r, Fail, "ermission")
	if took := time.Since(began); took >= probeWait {
		t.Errorf("finding out that it isn't permitted took %s", took)
	}
	want(t, "no file", NATS(Server{URL: srv.SecureURL(), Creds: "/none"}, nil).Run(t.Context()), Fail, "/none")
	srv.Shutdown()
	want(t, "gone", NATS(system, nil).Run(t.Context()), Fail, "no NATS server answers")
}

func TestNATSWithoutJetStream(t *testing.T) {
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	plain.Start()
	defer func() { plain.Shutdown(); plain.WaitForShutdown() }()
	if !plain.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server doesn't get ready")
	}
	r := NATS(Server{URL: plain.ClientURL()}, nil).Run(t.Context())
	want(t, "no JetStream", r, Fail, "JetStream")
	want(t, "another's port", Port(Server{Data: t.TempDir()}, plain.Addr().String()).Run(t.Context()), Fail, "a NATS server")
}

func TestPort(t *testing.T) {
	// On a loopback address that no other process uses: its port stays free.
	l, err := net.Listen("tcp", fmt.Sprintf("127.84.%d.%d:0", os.Getpid()>>8&0xff, os.Getpid()&0xff))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	s := Server{Data: t.TempDir()}
	want(t, "taken", Port(s, address).Run(t.Context()), Fail, "no NATS server")
	l.Close()
	want(t, "free", Port(s, address).Run(t.Context()), OK, "free")
	want(t, "nonsense", Port(s, "nowhere").Run(t.Context()), Fail, "nowhere")
}
