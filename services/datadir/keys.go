package datadir

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/seal"

	"github.com/diapause/diapause/schemas"
)

// Keys are what images are written and read with.
type Keys struct {
	Identities []age.Identity  // can read images; the directory's own first
	Recipients []age.Recipient // new images are readable to; the directory's own first
	Signer     ed25519.PrivateKey
	Own        *age.X25519Identity // the directory's own

	IdentityFile string // the directory's own, to be told to the person
	SigningFile  string
}

// Keys reads the directory's keys, and adds what the person names: files with
// further age identities, and age recipients ("age1…") that new images are to be
// readable to as well. A key that is gone is ErrKeyMissing. It is never replaced by
// a new one, since what was encrypted to it would be lost without notice.
func (d *Dir) Keys(identityFiles, recipients []string) (*Keys, error) {
	k := &Keys{IdentityFile: d.Join(keysDir, identityFile), SigningFile: d.Join(keysDir, signingFile)}
	own, err := k.readOwn()
	if err != nil {
		return nil, err
	}
	k.Own = own
	k.Identities, k.Recipients = []age.Identity{own}, []age.Recipient{own.Recipient()}
	for _, file := range identityFiles {
		ids, err := LoadIdentities(file)
		if err != nil {
			return nil, err
		}
		k.Identities = append(k.Identities, ids...)
	}
	for _, r := range recipients {
		recipient, err := seal.ParseRecipient(r)
		if err != nil {
			return nil, fmt.Errorf("recipient: %w", err)
		}
		k.Recipients = append(k.Recipients, recipient)
	}
	return k, nil
}

func (k *Keys) readOwn() (*age.X25519Identity, error) {
	text, err := readKey(k.IdentityFile)
	if err != nil {
		return nil, err
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err == nil && len(ids) == 1 {
		if own, ok := ids[0].(*age.X25519Identity); ok {
			k.Signer, err = readSigner(k.SigningFile)
			return own, err
		}
	}
	return nil, schemas.WithHint(
		fmt.Errorf("read key: %s doesn't hold exactly one age X25519 identity", k.IdentityFile),
		"put it back from a backup; name further ones with --identity-file")
}

func readSigner(file string) (ed25519.PrivateKey, error) {
	text, err := readKey(file)
	if err != nil {
		return nil, err
	}
	return signerIn(file, text)
}

func signerIn(file string, text []byte) (ed25519.PrivateKey, error) {
	if block, _ := pem.Decode(text); block != nil && block.Type == "PRIVATE KEY" {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if signer, ok := key.(ed25519.PrivateKey); ok {
				return signer, nil
			}
		}
	}
	return nil, schemas.WithHint(fmt.Errorf("read key: %s doesn't hold an Ed25519 key (PKCS #8 in PEM)", file), "put it back from a backup")
}

// readKey reads a key of the directory, which only its owner may read.
func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, schemas.WithHint(fmt.Errorf("%w: %s is gone", ErrKeyMissing, file),
			"put it back from a backup: what was written with it can't be read without; or choose an empty directory with --data")
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, schemas.WithHint(fmt.Errorf("%w: others may read the key %s (mode %04o)", ErrAccess, file, info.Mode().Perm()),
			"`chmod 600 %s`, and replace the key if others may have read it", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return text, nil
}

// LoadIdentities reads a file with age identities, as age-keygen writes it.
func LoadIdentities(file string) ([]age.Identity, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read identity file: %w", err)
	}
	if bytes.HasPrefix(text, []byte("age-encryption.org/")) || bytes.HasPrefix(text, []byte("-----BEGIN AGE ENCRYPTED FILE")) {
		return nil, schemas.WithHint(fmt.Errorf("identity file %s is itself encrypted", file), "decrypt it first: `age -d -o KEY %s`", file)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		// The library's error may quote the line, which may be a secret.
		return nil, fmt.Errorf("identity file %s holds no age identities, or a damaged one", file)
	}
	return ids, nil
}
