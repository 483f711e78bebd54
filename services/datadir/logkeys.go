package datadir

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/diapause/diapause/schemas"
)

// The names of the keys of the log beside credentials.
const (
	LogFile       = logFile   // opens segments of the log
	LogSignerFile = "log.key" // signs them, for parts that are no host
)

// LogKeys are what moves old revisions of the log to the store, and reads them there.
type LogKeys struct {
	Key    *age.X25519Identity // nil if there is none
	Signer ed25519.PrivateKey  // nil if what has them may only read
}

// MakeLogKeys makes the keys in a directory of credentials that aren't there, and gives their files.
func MakeLogKeys(dir string) ([]string, error) {
	key, signer := filepath.Join(dir, LogFile), filepath.Join(dir, LogSignerFile)
	if err := errors.Join(makeFile(key, newIdentity), makeFile(signer, newSigningKey)); err != nil {
		return nil, fmt.Errorf("make the keys of the log: %w", err)
	}
	return []string{key, signer}, nil
}

// ReadLogKeys reads the keys that lie beside a file of credentials. A file that isn't there, or has comments
// alone, holds none: systemd gives parts such a one for a credential that the machine hasn't got. Who else may read
// them is up to that directory, as with the credentials.
func ReadLogKeys(creds string) (k LogKeys, err error) {
	if creds == "" {
		return k, nil
	}
	key, text, err := beside(creds, LogFile)
	if err != nil || text == nil {
		return k, err
	}
	if k.Key, err = logKeyIn(key, text); err != nil {
		return LogKeys{}, err
	}
	signer, text, err := beside(creds, LogSignerFile)
	if err == nil && text != nil {
		k.Signer, err = signerIn(signer, text)
	}
	return k, err
}

// beside reads a file beside one of credentials; text is nil if it holds no key.
func beside(creds, name string) (file string, text []byte, err error) {
	file = filepath.Join(filepath.Dir(creds), name)
	text, err = os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	if err != nil {
		return file, nil, fmt.Errorf("read key: %w", err)
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return file, text, nil
		}
	}
	return file, nil, nil
}

// LogKey reads the key that segments of the log are encrypted to. If it isn't there yet it becomes a copy of the one that
// lies beside the credentials of the fleet's NATS server, or else a new one: a host that has another one than the
// fleet's leaves the log alone.
func (d *Dir) LogKey(creds string) (*age.X25519Identity, error) {
	file := d.Join(keysDir, logFile)
	err := makeFile(file, func() ([]byte, error) {
		if creds == "" {
			return newIdentity()
		}
		from, text, err := beside(creds, LogFile)
		if err != nil {
			return nil, err
		}
		if text == nil {
			return newIdentity()
		}
		_, err = logKeyIn(from, text)
		return text, err
	})
	if err != nil {
		return nil, fmt.Errorf("make the key of the log: %w", err)
	}
	text, err := readKey(file)
	if err != nil {
		return nil, err
	}
	return logKeyIn(file, text)
}

func logKeyIn(file string, text []byte) (*age.X25519Identity, error) {
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err == nil && len(ids) == 1 {
		if own, ok := ids[0].(*age.X25519Identity); ok {
			return own, nil
		}
	}
	return nil, schemas.WithHint(fmt.Errorf("read key: %s doesn't hold exactly one age X25519 identity", file), "put it back from a backup, or copy it from another host of the fleet")
}
