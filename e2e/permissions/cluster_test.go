package permissions

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/authority"
	"github.com/diapause/diapause/services/natsconfig"
	"github.com/diapause/diapause/services/run"
)

// newCluster runs three servers that share a configuration as written.
func newCluster(t *testing.T) (f fleet, routes []*net.TCPAddr) {
	t.Helper()
	f = fleet{t: t, dir: t.TempDir()}
	w, err := natsconfig.Write(natsconfig.Options{
		Fleet: natsconfig.Fleet{Names: stream.NamesWith(""), Hosts: []schemas.HostID{"h1"}},
		Dir:   f.dir, StoreDir: filepath.Join(f.dir, "streams"), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"},
		Cluster: natsconfig.Cluster{Name: "fleet", Listen: "127.0.0.1:6222", Routes: []string{"127.0.0.1:6222", "127.0.0.1:6223"}},
	})
	f.must(err)
	for i := range 3 {
		o, err := server.ProcessConfigFile(w.Config)
		f.must(err)
		if len(o.Routes) != 2 || o.Cluster.Name != "fleet" || o.Cluster.TLSConfig == nil {
			t.Fatalf("the cluster isn't as it was asked for: %+v", o.Cluster)
		}
		// The ports are free ones.
		o.NoSigs, o.NoLog, o.Port, o.Cluster.Port, o.ServerName = true, true, server.RANDOM_PORT, server.RANDOM_PORT, fmt.Sprint("n", i)
		o.StoreDir, o.Routes = filepath.Join(f.dir, o.ServerName), server.RoutesFromStr("tls://127.0.0.1:1") // of which the first needs one
		for _, at := range routes {
			o.Routes = append(o.Routes, server.RoutesFromStr("tls://"+at.String())...)
		}
		s, err := server.NewServer(o)
		f.must(err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		for end := time.Now().Add(patience); s.ClusterAddr() == nil || s.Addr() == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a NATS server doesn't listen")
			}
		}
		routes = append(routes, s.ClusterAddr())
		f.url = "tls://" + net.JoinHostPort("localhost", strconv.Itoa(s.Addr().(*net.TCPAddr).Port))
	}
	return f, routes
}

// Three servers keep each stream, a part that makes streams by itself leaves it so, and
// none joins them without a certificate of their authority.
func TestCluster(t *testing.T) {
	f, routes := newCluster(t)
	made, err := run.Streams(t.Context(), run.StreamsConfig{
		Log: slog.New(slog.NewTextHandler(logTo{t}, nil)), NATS: run.NATS{URL: f.url, Creds: f.creds("system")}, Replicas: 3, Wait: patience,
	})
	f.must(err)
	if len(made) != len(stream.NamesWith("").Streams()) {
		t.Errorf("streams: %v", made)
	}
	for _, s := range made {
		if s.Replicas != 3 {
			t.Errorf("stream %s has %d replicas", s.Name, s.Replicas)
		}
	}
	js, err := jetstream.New(f.connect("system"))
	f.must(err)
	f.must(stream.Ensure(t.Context(), js, stream.NamesWith(""), 0))
	s, err := js.Stream(t.Context(), stream.NamesWith("").SessionStream())
	f.must(err)
	if n := s.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("`diapause up` would leave %d replicas of 3", n)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(f.dir, "creds", "ca.pem"))
	f.must(err)
	roots.AppendCertsFromPEM(ca)
	for name, certs := range map[string][]tls.Certificate{"no certificate": nil, "a certificate of its own": {strangerCert(t)}} {
		if err := joins(routes[0], &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: certs}); err == nil {
			t.Errorf("a server with %s is let in", name)
		}
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(f.dir, authority.ServerFile), filepath.Join(f.dir, authority.ServerKeyFile))
	f.must(err)
	f.must(joins(routes[0], &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{own}}))
}

// Who asks a server that is alone for replicas is told what it would take.
func TestReplicasOfOne(t *testing.T) {
	f := newFleet(t)
	_, err := run.Streams(t.Context(), run.StreamsConfig{
		Log: slog.New(slog.DiscardHandler), NATS: run.NATS{URL: f.url, Creds: f.creds("system")}, Replicas: 3, Wait: patience,
	})
	if schemas.HintOf(err) == "" {
		t.Errorf("3 replicas on one server: %v", err)
	}
}

// joins reports what hinders a connection to a server's port for the others, up to its
// first byte, which shows that the certificate was taken.
func joins(at *net.TCPAddr, conf *tls.Config) error {
	plain, err := net.DialTimeout("tcp", at.String(), patience)
	if err != nil {
		return err
	}
	defer plain.Close()
	if err := plain.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c := tls.Client(plain, conf)
	if err := c.Handshake(); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1)) // an alert, or the server's greeting
	return err
}

// strangerCert is of another authority.
func strangerCert(t *testing.T) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	if err := authority.Certify(dir, dir, []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, authority.ServerFile), filepath.Join(dir, authority.ServerKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
