package bench

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// wayToPort is a way to a port of this machine, or of a session.
type wayToPort struct {
	name string
	open func(ctx context.Context, data, port string) (*relay, error)
}

// relay is what carries connections to an address.
type relay struct {
	address  string
	programs []*exec.Cmd
	says     string // what one of them has to have said

	mu   sync.Mutex
	said bytes.Buffer
}

func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(p)
}

// check finds out whether it goes the way that it should.
func (r *relay) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(r.said.String(), r.says) {
		return fmt.Errorf("connections go another way: %s", r.said.String())
	}
	return nil
}

func (r *relay) close() (err error) {
	for _, p := range r.programs {
		err = errors.Join(err, p.Process.Kill())
		_ = p.Wait() // killed
	}
	return err
}

// start runs one more program of the relay.
func (r *relay) start(cmd *exec.Cmd) error {
	cmd.Stderr = r
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	r.programs = append(r.programs, cmd)
	return nil
}

var plainTCP = wayToPort{"plain TCP, no relay", func(_ context.Context, _, port string) (*relay, error) {
	return &relay{address: net.JoinHostPort("127.0.0.1", port)}, nil
}}

// socats gives a way through as many socats; ends are what each connects to, PORT being the port, and NEXT
// where the one before it listens.
func socats(name string, programs ...[2]string) wayToPort {
	return wayToPort{name, func(ctx context.Context, _, port string) (*relay, error) {
		r := &relay{}
		for _, p := range programs {
			at, err := freePort()
			if err != nil {
				return nil, err
			}
			cmd := exec.CommandContext(ctx, "socat", "-b", "65536", strings.ReplaceAll(p[0], "HERE", at), strings.ReplaceAll(p[1], "NEXT", port))
			if err := r.start(cmd); err != nil {
				return nil, errors.Join(err, r.close())
			}
			port = at
		}
		r.address = net.JoinHostPort("127.0.0.1", port)
		return r, nil
	}}
}

const socatListens = "TCP-LISTEN:HERE,bind=127.0.0.1,fork,reuseaddr"

func socatTCP(string) wayToPort {
	return socats("socat", [2]string{socatListens, "TCP:127.0.0.1:NEXT"})
}

// socatTLS has two of them, with TLS between, as on two machines.
func socatTLS(dir string) wayToPort {
	file := filepath.Join(dir, "socat.pem")
	w := socats("socat, TLS",
		[2]string{"OPENSSL-LISTEN:HERE,bind=127.0.0.1,fork,reuseaddr,verify=0,cert=" + file, "TCP:127.0.0.1:NEXT"},
		[2]string{socatListens, "OPENSSL:127.0.0.1:NEXT,verify=0"})
	open := w.open
	w.open = func(ctx context.Context, data, port string) (*relay, error) {
		if err := writeCertificate(file); err != nil {
			return nil, err
		}
		return open(ctx, data, port)
	}
	return w
}

// writeCertificate writes a key and a certificate that it signs itself.
func writeCertificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	raw, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}

// forwardOf is `diapause forward`, which has to say which way it goes.
func forwardOf(binary, name, says string) wayToPort {
	return wayToPort{name, func(ctx context.Context, data, port string) (*relay, error) {
		r := &relay{says: says}
		cmd := exec.CommandContext(ctx, binary, "--data", data, "forward", "asked", "0:"+port)
		cmd.Env = append(os.Environ(), "DIAPAUSE_URL=", "DIAPAUSE_CREDS=")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := r.start(cmd); err != nil {
			return nil, err
		}
		line, err := firstLine(out)
		fields := strings.Fields(line)
		if err != nil || len(fields) < 2 {
			return nil, errors.Join(fmt.Errorf("forward says %q: %w", line, err), r.close())
		}
		r.address = fields[1]
		return r, nil
	}}
}
