package natsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/authority"
)

func options(t *testing.T) Options {
	return Options{
		Fleet: Fleet{Names: stream.NamesWith(""), Tenants: []schemas.Tenant{"acme"}, Hosts: []schemas.HostID{"h1"}},
		Dir:   filepath.Join(t.TempDir(), "nats"), StoreDir: "/var/lib/nats", Listen: "0.0.0.0:4222", DNSNames: []string{"nats.example.com", "10.0.0.1"},
	}
}

func write(t *testing.T, o Options) (w Written, config string) {
	t.Helper()
	w, err := Write(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	return w, string(text)
}

// A second run keeps all keys, adds those that are new, and says which are left over.
func TestWriteAgain(t *testing.T) {
	o := options(t)
	_, first := write(t, o)
	if _, again := write(t, o); again != first {
		t.Error("the same again isn't the same")
	}
	o.Tenants, o.Hosts = []schemas.Tenant{"acme", "beta"}, nil
	w, changed := write(t, o)
	line := func(config, user string) string {
		_, rest, _ := strings.Cut(config, "# "+user+"\n")
		key, _, _ := strings.Cut(rest, ",")
		return key
	}
	if line(changed, "publisher-acme") != line(first, "publisher-acme") || line(changed, "publisher-beta") == "" || strings.Contains(changed, "worker-h1") {
		t.Errorf("keys were changed, or users weren't:\n%s", changed)
	}
	if want := []string{filepath.Join(o.Dir, "creds", "worker-h1.nk")}; !slices.Equal(w.Stale, want) {
		t.Errorf("left over: %v, want %v", w.Stale, want)
	}
}

// Only the owner can read what is secret, and no secret is in the configuration.
func TestSecrets(t *testing.T) {
	o := options(t)
	w, config := write(t, o)
	secret := append(slices.Concat(w.Creds, w.Log), filepath.Join(o.Dir, authority.KeyFile), filepath.Join(o.Dir, authority.ServerKeyFile), w.Config)
	for _, file := range secret {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	for _, file := range w.Creds {
		seed, err := os.ReadFile(file)
		if err != nil || strings.Contains(config, strings.TrimSpace(string(seed))) {
			t.Errorf("the seed of %s is in the configuration, or can't be read: %v", file, err)
		}
	}
	if info, err := os.Stat(o.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", o.Dir, info.Mode(), err)
	}
}

func TestCertificate(t *testing.T) {
	o := options(t)
	write(t, o)
	write(t, o) // by the same authority
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.Dir, authority.ServerFile), filepath.Join(o.Dir, authority.ServerKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(o.Dir, "creds", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for name, want := range map[string]bool{"nats.example.com": true, "10.0.0.1": true, "example.com": false, "10.0.0.2": false} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != want {
			t.Errorf("for %s: %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"a tenant with a dot":      func(o *Options) { o.Tenants = []schemas.Tenant{"a.b"} },
		"a tenant with a wildcard": func(o *Options) { o.Tenants = []schemas.Tenant{">"} },
		"a host with a space":      func(o *Options) { o.Hosts = []schemas.HostID{"a b"} },
		"no name of the server":    func(o *Options) { o.DNSNames = nil },
		"a route without a port":   func(o *Options) { o.Cluster = Cluster{Name: "c", Routes: []string{"n1:6222", "n2"}} },
		"a port that is a word":    func(o *Options) { o.Cluster = Cluster{Name: "c", Routes: []string{"n1:6222", "n2:x"}} },
		"a cluster of one server":  func(o *Options) { o.Cluster = Cluster{Name: "c", Routes: []string{"n1:6222"}} },
		"a cluster with a dot":     func(o *Options) { o.Cluster = Cluster{Name: "c.d", Routes: []string{"n1:6222", "n2:6222"}} },
		"routes without a cluster": func(o *Options) { o.Cluster = Cluster{Routes: []string{"n1:6222", "n2:6222"}} },
	} {
		o := options(t)
		change(&o)
		if _, err := Write(o); err == nil {
			t.Errorf("%s is taken", what)
		}
		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: something was written", what)
		}
	}
}
