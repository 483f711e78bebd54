package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of a certificate that is made here, in its directory.
const (
	// selfFile has the key and the certificate. They are one file so that they change together.
	selfFile = "self.pem"
	// TrustFile has the certificate alone, for clients.
	TrustFile = "trust.pem"
)

const (
	// life is less than the 825 days that clients of Apple take.
	life = 800 * 24 * time.Hour
	// renewal is how long before its end a certificate is made again.
	renewal = 60 * 24 * time.Hour
	// differ is how much clocks of clients may be behind.
	differ = time.Hour
)

func (s *Source) self() bool { return s.CertFile == s.KeyFile && s.Dir != "" }

func (s *Source) file(name string) string { return filepath.Join(s.Dir, name) }

// Trust gives the file by which clients trust the certificate; "" if an authority has signed it.
func (s *Source) Trust() string {
	if !s.self() {
		return ""
	}
	return s.file(TrustFile)
}

// make makes the certificate where there is none that is good. Its key stays the same, which clients may have pinned. What
// another process has made meanwhile is taken.
func (s *Source) make(again bool) error {
	if s.Dir == "" {
		return errors.New("no directory is named")
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.file(selfFile), s.file(selfFile))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case err == nil && s.good(pair.Leaf):
		return s.trusted(pair.Leaf)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	leaf, text, err := s.sign(key, pair.Leaf)
	if err != nil {
		return err
	}
	if err := replace(s.file(selfFile), text, 0o600); err != nil {
		return err
	}
	if again {
		s.Log.Warn("the certificate was made again: clients elsewhere that trust the one of before need the new file", "file", s.file(TrustFile))
	}
	return s.trusted(leaf)
}

// good reports whether a certificate needn't be made again.
func (s *Source) good(c *x509.Certificate) bool {
	now := s.Now()
	if nearEnd(c, now) || now.Before(c.NotBefore) {
		return false
	}
	names, addresses := split(s.Names)
	for _, a := range addresses {
		if !slices.ContainsFunc(c.IPAddresses, func(has net.IP) bool { return bytes.Equal(normal(has), normal(a)) }) {
			return false
		}
	}
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(c.DNSNames, n) })
}

func nearEnd(c *x509.Certificate, now time.Time) bool { return now.After(c.NotAfter.Add(-renewal)) }

// normal is an address in the one form that is compared.
func normal(ip []byte) []byte {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap().AsSlice()
}

// split tells addresses from names.
func split(all []string) (names []string, addresses [][]byte) {
	for _, n := range all {
		if a, err := netip.ParseAddr(n); err == nil {
			addresses = append(addresses, a.Unmap().WithZone("").AsSlice())
		} else {
			names = append(names, strings.ToLower(n))
		}
	}
	return names, addresses
}

// sign makes the certificate, and the text of selfFile. It is for the names of the one before, too: two parts that share a
// directory would else take each other's.
func (s *Source) sign(key *ecdsa.PrivateKey, before *x509.Certificate) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	now := s.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "diapause gateway"}, NotBefore: now.Add(-differ), NotAfter: now.Add(life),
		// Without a KeyUsage, by which OpenSSL wouldn't take it for one that is signed by itself.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	names, addresses := split(s.Names)
	t.DNSNames = names
	for _, a := range addresses {
		t.IPAddresses = append(t.IPAddresses, a)
	}
	if before != nil {
		t.DNSNames = union(t.DNSNames, before.DNSNames, func(a, b string) bool { return a == b })
		t.IPAddresses = union(t.IPAddresses, before.IPAddresses, net.IP.Equal)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return leaf, append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), encoded(leaf)...), nil
}

// union gives a, and what of b isn't in it.
func union[T any](a, b []T, same func(T, T) bool) []T {
	for _, x := range b {
		if !slices.ContainsFunc(a, func(has T) bool { return same(has, x) }) {
			a = append(a, x)
		}
	}
	return a
}

// trusted has the file for clients be that of a certificate.
func (s *Source) trusted(c *x509.Certificate) error {
	want := encoded(c)
	if has, err := os.ReadFile(s.file(TrustFile)); err == nil && bytes.Equal(has, want) {
		return nil
	}
	return replace(s.file(TrustFile), want, 0o644)
}

func encoded(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// Fingerprint gives the SHA-256 of a certificate, as browsers and openssl show it.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// replace writes a file, complete or not at all. Its first bytes already have the mode.
func replace(file string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
