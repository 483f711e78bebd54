package datadir

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/schemas"
)

// Names in keysDir.
const (
	identityFile = "identity.txt"
	signingFile  = "signing.key"
	logFile      = "log.txt"
	newKeysFile  = "new" // there until the person was told to back up the keys
)

// initialise makes what a data directory has for good. The version comes last:
// without it the next start completes the first, and keeps what that had made.
func initialise(path string, host schemas.HostID) error {
	if err := os.MkdirAll(filepath.Join(path, keysDir), 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text func() ([]byte, error)
	}{
		{filepath.Join(keysDir, identityFile), newIdentity},
		{filepath.Join(keysDir, signingFile), newSigningKey},
		{filepath.Join(keysDir, newKeysFile), func() ([]byte, error) { return nil, nil }},
		{hostFile, func() ([]byte, error) { return newHost(host) }},
		{versionFile, func() ([]byte, error) { return []byte(strconv.Itoa(FormatVersion) + "\n"), nil }},
	} {
		if err := makeFile(filepath.Join(path, f.name), f.text); err != nil {
			return fmt.Errorf("make %s: %w", f.name, err)
		}
	}
	return nil
}

// makeFile writes a file that isn't there yet.
func makeFile(file string, text func() ([]byte, error)) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := text()
	if err != nil {
		return err
	}
	return writeFile(file, b)
}

// writeFile writes a file whole and durably, or not at all, with mode 0600.
func writeFile(file string, text []byte) error {
	tmp := file + temporary
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	return syncDir(filepath.Dir(file))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// newIdentity makes an age identity in the format of age-keygen.
func newIdentity() ([]byte, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n",
		time.Now().Format(time.RFC3339), id.Recipient(), id), nil
}

func newSigningKey() ([]byte, error) {
	text, _, err := NewSigningKey()
	return text, err
}

// NewSigningKey makes an Ed25519 key in the format of openssl genpkey, and gives its
// public half too.
func NewSigningKey() ([]byte, ed25519.PublicKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), public, nil
}

var notInToken = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// maxHostname leaves room for the random part in a token of 64 characters.
const maxHostname = 48

// newHost takes the id that was given, or makes one that stays readable and differs between
// machines of the same name.
func newHost(given schemas.HostID) ([]byte, error) {
	if given != "" {
		return []byte(given + "\n"), nil
	}
	name, err := os.Hostname()
	if err != nil {
		name = "" // a machine without a name gets an id all the same
	}
	suffix := make([]byte, 4)
	if _, err := rand.Read(suffix); err != nil {
		return nil, err
	}
	return []byte(hostID(name, suffix) + "\n"), nil
}

func hostID(hostname string, suffix []byte) string {
	name, _, _ := strings.Cut(hostname, ".")
	name = strings.Trim(notInToken.ReplaceAllString(name, "-"), "-_")
	name = name[:min(len(name), maxHostname)]
	if name == "" {
		name = "host"
	}
	return name + "-" + hex.EncodeToString(suffix)
}

func readHost(path string) (schemas.HostID, error) {
	file := filepath.Join(path, hostFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", schemas.WithHint(fmt.Errorf("read the host's id: %w", err), "put the file back from a backup: sessions are tied to it")
	}
	id := strings.TrimSpace(string(text))
	if !schemas.ValidToken(id) {
		return "", schemas.WithHint(fmt.Errorf("read the host's id: %s is damaged", file), "put the file back from a backup: sessions are tied to it")
	}
	return schemas.HostID(id), nil
}
