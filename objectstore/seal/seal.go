package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// MaxSize bounds what is sealed, in bytes: a secret for a record, not a file.
const MaxSize = 1 << 20

var (
	// ErrNoKey: none of the identities unseals it.
	ErrNoKey = errors.New("no key for the sealed text")
	// ErrCorrupt: the sealed text is damaged or cut short.
	ErrCorrupt = errors.New("sealed text is damaged")
)

// Seal encrypts at most MaxSize bytes to the recipients, all of the same kind, and
// returns the age file in base64, on one line.
func Seal(plain []byte, recipients ...age.Recipient) (string, error) {
	if len(plain) > MaxSize {
		return "", fmt.Errorf("seal: %d bytes are more than %d", len(plain), MaxSize)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// Unseal returns what was sealed, all of it or an error: ErrNoKey, ErrCorrupt.
func Unseal(sealed string, identities ...age.Identity) ([]byte, error) {
	if len(identities) == 0 {
		return nil, fmt.Errorf("unseal: %w: no identity given", ErrNoKey)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("unseal: %w: %w", ErrCorrupt, err)
	}
	r, err := age.Decrypt(bytes.NewReader(data), identities...)
	if noMatch := new(age.NoIdentityMatchError); errors.As(err, &noMatch) {
		return nil, fmt.Errorf("unseal: %w: %w", ErrNoKey, err)
	}
	if err != nil {
		return nil, fmt.Errorf("unseal: %w: %w", ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err == nil && len(plain) > MaxSize {
		err = fmt.Errorf("more than %d bytes", MaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("unseal: %w: %w", ErrCorrupt, err)
	}
	return plain, nil
}
