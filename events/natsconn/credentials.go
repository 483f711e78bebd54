package natsconn

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nats.go"
)

// maxCredentials is more than any file with credentials holds.
const maxCredentials = 64 << 10

// Credentials makes the option for a file, by what the file holds. NATS reads
// the file again for each reconnect, so that renewed credentials are taken up.
//
// The user of an nkey gets an inbox of its own, "_INBOX.<public key>", so that it can be
// given the right to read its own answers alone. If there is a ca.pem beside the file, TLS
// is required, and the server needs a certificate by that authority. The error is
// ErrCredentials.
func Credentials(file string) (nats.Option, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	opts := []nats.Option{authority(file)}
	if bytes.Contains(text, []byte("-----BEGIN NATS USER JWT-----")) {
		opts = append(opts, nats.UserCredentials(file))
	} else {
		auth, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			// The library's error may quote the file, which may be a secret.
			return nil, schemas.WithHint(fmt.Errorf("%w: %s holds none", ErrCredentials, file), "want the seed of an nkey user (SU…) or NATS .creds")
		}
		opts = append(opts, auth, ownInbox)
	}
	return func(o *nats.Options) error {
		for _, opt := range opts {
			if err := opt(o); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// InboxOf is where the user of an nkey hears answers.
func InboxOf(publicKey string) string { return "_INBOX." + publicKey }

func ownInbox(o *nats.Options) error { return nats.CustomInboxPrefix(InboxOf(o.Nkey))(o) }

// authority trusts the certificate beside a file of credentials, if there is one.
func authority(file string) nats.Option {
	return func(o *nats.Options) error {
		ca := filepath.Join(filepath.Dir(file), AuthorityFile)
		if _, err := os.Stat(ca); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := nats.RootCAs(ca)(o); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCredentials, ca, err)
		}
		return nil
	}
}

// AuthorityFile is the name of the certificate beside a file of credentials.
const AuthorityFile = "ca.pem"

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxCredentials {
		return nil, fmt.Errorf("%w: %s has %d bytes, which no file with credentials has", ErrCredentials, file, info.Size())
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no file %s", ErrCredentials, file)
	case errors.Is(err, fs.ErrPermission):
		return nil, schemas.WithHint(fmt.Errorf("%w: you may not read %s", ErrCredentials, file), "use the user that it belongs to, or sudo")
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return text, nil
}
