package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/events/natsconn"
)

// The files, below the directory.
const (
	CertFile      = "tls/ca.pem" // of the authority
	KeyFile       = "tls/ca-key.pem"
	ServerFile    = "tls/server.pem"
	ServerKeyFile = "tls/server-key.pem"
)

// How long certificates are valid. The server's is made again by every run.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 2 * 365 * 24 * time.Hour
)

// authority signs the server's certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certify makes the server's certificate for the names and addresses that clients use, by
// the authority of the directory, which is made if there is none. The authority's
// certificate is copied into creds, where clients look for it.
func Certify(dir, creds string, names []string, now time.Time) error {
	if err := certify(dir, creds, names, now); err != nil {
		return fmt.Errorf("make certificates in %s: %w", dir, err)
	}
	return nil
}

func certify(dir, creds string, names []string, now time.Time) error {
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(CertFile)), 0o700); err != nil {
		return err
	}
	ca, err := openAuthority(dir, now)
	if err != nil {
		return err
	}
	if err := sign(dir, ca, names, now); err != nil {
		return err
	}
	cert, err := os.ReadFile(filepath.Join(dir, CertFile))
	if err != nil {
		return err
	}
	return replace(filepath.Join(creds, natsconn.AuthorityFile), cert, 0o644)
}

func sign(dir string, ca authority, names []string, now time.Time) error {
	t := template("diapause nats", now, serverLife)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writePair(filepath.Join(dir, ServerFile), filepath.Join(dir, ServerKeyFile), t, ca.cert, key, ca.key)
}

func openAuthority(dir string, now time.Time) (authority, error) {
	certPath, keyPath := filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile)
	if _, err := os.Stat(certPath); errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return authority{}, err
		}
		t := template("diapause authority", now, authorityLife)
		t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
		if err := writePair(certPath, keyPath, t, t, key, key); err != nil {
			return authority{}, err
		}
	}
	certDER, err := readPEM(certPath)
	if err != nil {
		return authority{}, err
	}
	keyDER, err := readPEM(keyPath)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return authority{}, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	return authority{cert, key}, err
}

func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life), // clocks differ
	}
}

func writePair(certPath, keyPath string, t, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	cert, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := replace(keyPath, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	return replace(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644)
}

func readPEM(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	return block.Bytes, nil
}

// replace writes a file, complete or not at all, also if the power fails: the file is on the
// disk before its name is.
func replace(file string, text []byte, mode os.FileMode) error {
	tmp := file + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
