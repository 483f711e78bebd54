package natsconn

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nats-io/nats.go"
)

// maxCredentials is more than any file with credentials holds.
const maxCredentials = 64 << 10

// credentials makes the option for a file, by what the file holds. NATS reads
// the file again for each reconnect, so that renewed credentials are taken up.
func credentials(file string) (nats.Option, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte("-----BEGIN NATS USER JWT-----")) {
		return nats.UserCredentials(file), nil
	}
	opt, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		// The library's error may quote the file, which may be somebody's secret.
		return nil, fmt.Errorf("%w: %s holds neither the seed of an nkey user (SU…) nor NATS .creds", ErrCredentials, file)
	}
	return opt, nil
}

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
		return nil, fmt.Errorf("%w: you may not read %s: use the user that it belongs to, or sudo", ErrCredentials, file)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return text, nil
}
