package certificate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bench is the directory of a certificate, and a clock.
type bench struct {
	*testing.T
	dir string
	now time.Time
	log bytes.Buffer
}

func newBench(t *testing.T) *bench {
	return &bench{T: t, dir: t.TempDir(), now: time.Now()}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// self opens the certificate that is made.
func (b *bench) self(names ...string) *Source {
	b.Helper()
	s, err := Open(Options{Dir: b.dir, Names: names, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Now: func() time.Time { return b.now }})
	b.must(err)
	return s
}

// files gives a certificate in two files, as an authority would have signed it.
func (b *bench) files(cert, key string) {
	b.Helper()
	s, err := Open(Options{Dir: b.TempDir(), Names: []string{"gate.example.com"}})
	b.must(err)
	b.copy(s.file(TrustFile), cert)
	b.copy(s.file(selfFile), key)
}

func (b *bench) copy(from, to string) {
	b.Helper()
	text, err := os.ReadFile(from)
	b.must(err)
	b.must(os.WriteFile(to, text, 0o600))
}

// served gives the certificate that a client gets.
func (b *bench) served(s *Source) *x509.Certificate {
	b.Helper()
	c, err := s.get(nil)
	b.must(err)
	return c.Leaf
}

func TestSelf(t *testing.T) {
	b := newBench(t)
	s := b.self("localhost", "*.default.localhost", "GATE.example.com", "127.0.0.1", "::1")
	leaf := s.Leaf()
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve.Params().Name != "P-256" || leaf.IsCA {
		t.Errorf("it is %T, an authority: %v", leaf.PublicKey, leaf.IsCA)
	}
	for name, ok := range map[string]bool{"localhost": true, "3000--web.default.localhost": true, "gate.example.com": true, "127.0.0.1": true, "[::1]": true, "example.com": false, "10.0.0.1": false} {
		if err := leaf.VerifyHostname(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	info, err := os.Stat(s.file(selfFile))
	b.must(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v", info.Mode())
	}
	trust, err := os.ReadFile(s.Trust())
	b.must(err)
	if bytes.Contains(trust, []byte("PRIVATE")) {
		t.Error("the file for clients has the key")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trust) {
		t.Fatal("the file for clients has no certificate")
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"}); err != nil {
		t.Errorf("a client that has the file: %v", err)
	}
	if f := Fingerprint(leaf); len(f) != 32*3-1 || strings.Count(f, ":") != 31 || f != strings.ToUpper(f) {
		t.Errorf("its fingerprint is %q", f)
	}
}

// It is the same after a restart, and another one only where it has to be. Its key stays.
func TestSelfIsKept(t *testing.T) {
	b := newBench(t)
	first := b.self("localhost", "127.0.0.1").Leaf()
	if again := b.self("127.0.0.1", "localhost").Leaf(); !again.Equal(first) {
		t.Error("the next start has another one")
	}
	if fewer := b.self("localhost").Leaf(); !fewer.Equal(first) {
		t.Error("a start with fewer names has another one")
	}
	more := b.self("localhost", "127.0.0.1", "apps.example.com").Leaf()
	if more.Equal(first) || more.VerifyHostname("apps.example.com") != nil {
		t.Error("a start with one more name has the one of before")
	}
	if !more.PublicKey.(*ecdsa.PublicKey).Equal(first.PublicKey) {
		t.Error("its key is another one")
	}
	b.must(os.WriteFile(filepath.Join(b.dir, selfFile), []byte("damaged"), 0o600))
	b.must(os.Remove(filepath.Join(b.dir, TrustFile)))
	if made := b.self("localhost"); made.Leaf().Equal(more) {
		t.Error("a damaged one is served")
	} else if trust, err := os.ReadFile(made.Trust()); err != nil || !bytes.Equal(trust, encoded(made.Leaf())) {
		t.Errorf("the file for clients is that of another one: %v", err)
	}
	if _, err := Open(Options{Names: []string{"localhost"}}); err == nil {
		t.Error("one is made without a directory")
	}
}

// A certificate that a process has served for two years is made again before its end, when a client connects.
func TestSelfIsRenewed(t *testing.T) {
	b := newBench(t)
	s := b.self("localhost")
	first := s.Leaf()
	b.now = first.NotAfter.Add(-renewal)
	if !b.served(s).Equal(first) {
		t.Error("it is renewed early")
	}
	b.now = b.now.Add(time.Second)
	b.must(os.Chmod(b.dir, 0o500))
	b.must(os.Rename(b.dir, b.dir+"-away"))
	b.must(os.WriteFile(b.dir, nil, 0o600)) // no directory can be made here
	for range 3 {
		if !b.served(s).Equal(first) {
			t.Error("one is served that couldn't be kept")
		}
	}
	if n := strings.Count(b.log.String(), "can't be made again"); n != 1 {
		t.Errorf("that it couldn't be is logged %d times:\n%s", n, b.log.String())
	}
	b.must(os.Remove(b.dir))
	b.must(os.Rename(b.dir+"-away", b.dir))
	b.must(os.Chmod(b.dir, 0o700))
	b.now = b.now.Add(tryAgain)
	second := b.served(s)
	if second.Equal(first) || !second.NotAfter.After(first.NotAfter) || !b.served(s).Equal(second) {
		t.Errorf("it is valid until %v, the one of before until %v", second.NotAfter, first.NotAfter)
	}
	if !b.self("localhost").Leaf().Equal(second) {
		t.Error("the next start has another one")
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	b := newBench(t)
	cert, key := filepath.Join(b.dir, "cert.pem"), filepath.Join(b.dir, "key.pem")
	b.files(cert, key)
	s, err := Open(Options{CertFile: cert, KeyFile: key, Log: slog.New(slog.NewTextHandler(&b.log, nil))})
	b.must(err)
	if s.Trust() != "" {
		t.Errorf("clients are to trust %s", s.Trust())
	}
	first := b.served(s)
	b.files(cert, key)
	second := b.served(s)
	if second.Equal(first) {
		t.Fatal("the one of before is served")
	}

	// The certificate comes before its key.
	other := newBench(t)
	newCert, newKey := filepath.Join(other.dir, "cert.pem"), filepath.Join(other.dir, "key.pem")
	b.files(newCert, newKey)
	b.must(os.Rename(newCert, cert))
	for range 3 {
		if !b.served(s).Equal(second) {
			t.Error("a certificate is served without its key")
		}
	}
	if n := strings.Count(b.log.String(), "can't be read"); n != 1 {
		t.Errorf("that is logged %d times:\n%s", n, b.log.String())
	}
	b.must(os.Rename(newKey, key))
	third := b.served(s)
	if third.Equal(second) {
		t.Error("the new one isn't served once it is whole")
	}

	for _, broken := range []func(){
		func() { b.must(os.WriteFile(cert, []byte("-----BEGIN"), 0o600)) },
		func() { b.must(os.WriteFile(cert, nil, 0o600)) },
		func() { b.must(os.Remove(cert)) },
	} {
		broken()
		if !b.served(s).Equal(third) {
			t.Error("a file that can't be read changes what is served")
		}
	}
	b.files(cert, key)
	if b.served(s).Equal(third) {
		t.Error("a good one isn't served after that")
	}
}

// Renewals by a link that leads to another directory, as Kubernetes has them.
func TestFilesBehindALink(t *testing.T) {
	b := newBench(t)
	for _, dir := range []string{"1", "2"} {
		b.must(os.Mkdir(filepath.Join(b.dir, dir), 0o700))
		b.files(filepath.Join(b.dir, dir, "tls.crt"), filepath.Join(b.dir, dir, "tls.key"))
	}
	link := filepath.Join(b.dir, "data")
	b.must(os.Symlink("1", link))
	s, err := Open(Options{CertFile: filepath.Join(link, "tls.crt"), KeyFile: filepath.Join(link, "tls.key")})
	b.must(err)
	first := b.served(s)
	b.must(os.Symlink("2", link+".new"))
	b.must(os.Rename(link+".new", link))
	if b.served(s).Equal(first) {
		t.Error("the one of before is served")
	}
}

func TestFilesThatMakeNoSense(t *testing.T) {
	b := newBench(t)
	cert, key := filepath.Join(b.dir, "cert.pem"), filepath.Join(b.dir, "key.pem")
	b.files(cert, key)
	for _, o := range []Options{{CertFile: cert}, {KeyFile: key}, {CertFile: cert, KeyFile: cert}, {CertFile: key + "x", KeyFile: key}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// A connection that is open lives on when the certificate changes; the next client gets the new one.
func TestConnectionsOutliveARenewal(t *testing.T) {
	b := newBench(t)
	cert, key := filepath.Join(b.dir, "cert.pem"), filepath.Join(b.dir, "key.pem")
	b.files(cert, key)
	s, err := Open(Options{CertFile: cert, KeyFile: key})
	b.must(err)
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	b.must(err)
	l := tls.NewListener(plain, s.Config())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the client closes
			}()
		}
	}()
	defer func() {
		l.Close()
		<-ended
	}()
	dial := func() *tls.Conn {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // who is trusted isn't what is tried here
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		b.must(err)
		t.Cleanup(func() { _ = c.Close() })
		return c.(*tls.Conn)
	}
	echo := func(c *tls.Conn) {
		b.Helper()
		_, err := c.Write([]byte("x"))
		b.must(err)
		_, err = io.ReadFull(c, make([]byte, 1))
		b.must(err)
	}
	old := dial()
	echo(old)
	b.files(cert, key)
	fresh := dial()
	echo(old)
	echo(fresh)
	if fresh.ConnectionState().PeerCertificates[0].Equal(old.ConnectionState().PeerCertificates[0]) {
		t.Error("the next client gets the certificate of before")
	}
}

// Parts that share a directory have one certificate, which is good for each.
func TestSelfIsShared(t *testing.T) {
	b := newBench(t)
	one := b.self("one.example.com", "10.0.0.1")
	leaf := b.self("two.example.com", "10.0.0.1", "10.0.0.2").Leaf()
	for _, name := range []string{"one.example.com", "two.example.com", "10.0.0.1", "10.0.0.2"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if len(leaf.DNSNames) != 2 || len(leaf.IPAddresses) != 2 {
		t.Errorf("it is for %v and %v", leaf.DNSNames, leaf.IPAddresses)
	}
	if again := b.self(one.Names...).Leaf(); !again.Equal(leaf) {
		t.Error("the first part has another one made")
	}
}
