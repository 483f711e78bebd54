package natsconfig

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
)

// The files of TLS, below the directory.
const (
	authorityFile    = "tls/ca.pem"
	authorityKeyFile = "tls/ca-key.pem"
	certFile         = "tls/server.pem"
	certKeyFile      = "tls/server-key.pem"
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

// certify makes the server's certificate for the names that clients use, by the
// authority of the directory, which is made if there is none.
func certify(dir string, names []string, now time.Time) error {
	ca, err := openAuthority(dir, now)
	if err != nil {
		return fmt.Errorf("certificate authority in %s: %w", dir, err)
	}
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
	return writePair(filepath.Join(dir, certFile), filepath.Join(dir, certKeyFile), t, ca.cert, key, ca.key)
}

func openAuthority(dir string, now time.Time) (authority, error) {
	certPath, keyPath := filepath.Join(dir, authorityFile), filepath.Join(dir, authorityKeyFile)
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
