package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nkeys"
)

// User is one of the users with credentials.
type User string

// The users that the server knows.
const (
	UserSystem User = "system" // may do everything in the account
	UserClient User = "client" // what the client verbs need
)

// CredsFile gives the file with a user's seed in the directory of credentials.
func CredsFile(credsDir string, u User) string {
	return filepath.Join(credsDir, string(u)+".nk")
}

// PublicKey gives a user's public key; its seed is made on the first start, in a file
// with mode 0600.
func PublicKey(credsDir string, u User) (string, error) {
	file := CredsFile(credsDir, u)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeSeed(file)
	}
	if err != nil {
		return "", fmt.Errorf("credentials of user %s: %w", u, err)
	}
	kp, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return "", schemas.WithHint(fmt.Errorf("credentials of user %s: %s holds no nkey seed", u, file), "remove the file to have a new one made")
	}
	defer kp.Wipe()
	return kp.PublicKey()
}

// makeSeed writes a new seed, complete or not at all.
func makeSeed(file string) ([]byte, error) {
	kp, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer kp.Wipe()
	seed, err := kp.Seed()
	if err != nil {
		return nil, err
	}
	text := append(seed, '\n')
	tmp := file + ".tmp"
	if err := writeSynced(tmp, text); err != nil {
		return nil, err
	}
	return text, os.Rename(tmp, file)
}

func writeSynced(file string, text []byte) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}
