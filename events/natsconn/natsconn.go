package natsconn

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nats.go"
)

// What a caller can act on; match with errors.Is.
var (
	// ErrUnreachable: nothing answers at the URL.
	ErrUnreachable = errors.New("no NATS server answers")
	// ErrRefused: the server doesn't accept the credentials.
	ErrRefused = errors.New("the NATS server refuses the credentials")
	// ErrUntrusted: the server isn't known to be the one that is meant, or one of the two
	// wants TLS and the other has none.
	ErrUntrusted = errors.New("the NATS server isn't trusted")
	// ErrCredentials: the file with the credentials can't be used.
	ErrCredentials = errors.New("the credentials can't be used")
)

// handshakeLimit is how long one try to connect may take.
const handshakeLimit = 10 * time.Second

// reconnectWait is the pause between tries to get a lost connection back.
const reconnectWait = 500 * time.Millisecond

// Connect opens a connection to the server at url, which may be a list with
// commas. credsFile may be empty: then the server takes it for an
// unauthenticated client. name is what the server's administrators see.
//
// The first connection is tried once, for at most ten seconds or until the
// deadline of ctx; once it is there, it is kept for good: a lost one is tried
// again and again, also where the server refuses it for a while. opts come last and win.
func Connect(ctx context.Context, url, credsFile, name string, opts ...nats.Option) (*nats.Conn, error) {
	limit := handshakeLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, fmt.Errorf("connect to NATS at %s: %w", url, cmp.Or(err, context.DeadlineExceeded))
	}
	all := []nats.Option{
		nats.Name(name), nats.Timeout(limit), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.IgnoreAuthErrorAbort(), // which may be a server's that was started with a wrong configuration
	}
	if credsFile != "" {
		auth, err := Credentials(credsFile)
		if err != nil {
			return nil, err
		}
		all = append(all, auth)
	}
	nc, err := nats.Connect(url, append(all, opts...)...)
	if err != nil {
		return nil, Explain(err, url, credsFile)
	}
	return nc, nil
}

// Explain says what a person can do about a connection to url with credsFile that failed
// with err.
func Explain(err error, url, credsFile string) error {
	if trouble := tlsTrouble(err, url, credsFile); trouble != nil {
		return trouble
	}
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return schemas.WithHint(fmt.Errorf("%w at %s", ErrUnreachable, url), "start one with `diapause up`, or give the address of yours with --url")
	case credsFile == "" && strings.Contains(err.Error(), wantsTLS):
		return schemas.WithHint(fmt.Errorf("%w at %s: it wants some (%w)", ErrRefused, url, err),
			"give a file with --creds or DIAPAUSE_CREDS, or its data directory with --data or DIAPAUSE_DATA")
	case refused(err) && credsFile == "":
		return schemas.WithHint(fmt.Errorf("%w at %s: it wants some (%w)", ErrRefused, url, err), "give a file with --creds")
	case refused(err) && !hasAuthority(credsFile):
		return schemas.WithHint(fmt.Errorf("%w of %s at %s without TLS (%w)", ErrRefused, credsFile, url, err),
			"put %s, from where that file was made, beside it; else, is it the file of this server?", AuthorityFile)
	case refused(err):
		return schemas.WithHint(fmt.Errorf("%w of %s at %s (%w)", ErrRefused, credsFile, url, err), "is it the file of this server?")
	case timedOut(err):
		return schemas.WithHint(fmt.Errorf("%w at %s in time (%w)", ErrUnreachable, url, err), "something listens there but doesn't speak NATS, or is too busy")
	}
	return fmt.Errorf("connect to NATS at %s: %w", url, err)
}

// tlsTrouble explains what is wrong with the TLS of a connection; nil if nothing is.
func tlsTrouble(err error, url, credsFile string) error {
	ca, there := "", false
	if credsFile != "" {
		ca, there = filepath.Join(filepath.Dir(credsFile), AuthorityFile), hasAuthority(credsFile)
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch say := func(format string, args ...any) error {
		return fmt.Errorf("%w at %s: %s (%w)", ErrUntrusted, url, fmt.Sprintf(format, args...), err)
	}; {
	case errors.As(err, &unknown) && there:
		return say("%s isn't of the authority that made its certificate: take the %s from where the server's configuration was written (DIR/creds of `diapause nats-config`)", ca, AuthorityFile)
	case errors.As(err, &unknown):
		return say("its certificate is of an authority that isn't known here: put %s, from where its configuration was written (DIR/creds of `diapause nats-config`), beside the file given with --creds", AuthorityFile)
	case errors.As(err, &name):
		return say("its certificate is for other names: use one of those, or write its configuration again with --server-name for this one")
	case errors.As(err, &invalid):
		return say("its certificate can't be used: is the clock of this machine right? Write the server's configuration again if it has run out")
	case errors.Is(err, nats.ErrSecureConnWanted) && there:
		return schemas.WithHint(say("it speaks no TLS, which %s asks for: is it the server of that file?", ca),
			"`diapause up` prints an address of its own for clients with credentials")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return say("it speaks no TLS, which the address asks for: use nats:// if that is right")
	}
	return nil
}

// hasAuthority reports whether a connection with a file of credentials wants TLS.
func hasAuthority(credsFile string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(credsFile), AuthorityFile))
	return err == nil
}

// wantsTLS is in what a server says to a client that speaks no TLS.
const wantsTLS = "TLS Required"

func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		errors.Is(err, nats.ErrNkeysNotSupported)
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, nats.ErrTimeout) || errors.As(err, &network) && network.Timeout()
}
