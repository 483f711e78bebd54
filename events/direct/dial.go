package direct

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
)

// How long the host may take to be reached, so that a client whose packets are dropped soon goes
// another way (two of them may be lost), and to let the client in, which a busy machine may need.
const (
	reachLimit = 5 * time.Second
	admitLimit = 10 * time.Second
)

// ErrFingerprint: what listens at the address isn't the host.
var ErrFingerprint = errors.New("another certificate than the host's")

// ErrRefused: the host took the connection and didn't let it in.
var ErrRefused = errors.New("the host refused the grant")

// Dial takes an offer of a connection to a port of a session, named as in the Hello. The context ends
// the dial, not the connection.
func Dial(ctx context.Context, o attach.Offer, session string, port uint16) (*tunnel.Conn, error) {
	secret, err := hex.DecodeString(o.Grant)
	if err != nil {
		return nil, fmt.Errorf("read the grant: %w", err)
	}
	show, err := redemption{secret, port, session}.append(nil)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: reachLimit}
	plain, err := d.DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, pinned(o.Fingerprint))
	if err := admitted(ctx, conn, show); err != nil {
		plain.Close()
		return nil, err
	}
	return tunnel.Over(conn), nil
}

// admitted shows the grant and waits for the answer.
func admitted(ctx context.Context, conn *tls.Conn, show []byte) error {
	if err := conn.SetDeadline(time.Now().Add(admitLimit)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // it may have ended
	if err := conn.Handshake(); err != nil {
		stop()
		return fmt.Errorf("agree on keys with %s: %w", conn.RemoteAddr(), err)
	}
	answer := make([]byte, 1)
	_, err := conn.Write(show)
	if err == nil {
		_, err = conn.Read(answer)
	}
	switch {
	case !stop():
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case answer[0] != granted:
		return ErrRefused
	}
	return conn.SetDeadline(time.Time{})
}

// pinned takes the certificate with a fingerprint and no other. TLS proves that the host has its key.
func pinned(fingerprint string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // there is no authority: VerifyConnection looks at the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || subtle.ConstantTimeCompare([]byte(fingerprintOf(s.PeerCertificates[0].Raw)), []byte(fingerprint)) != 1 {
				return ErrFingerprint
			}
			return nil
		},
	}
}

func fingerprintOf(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}
