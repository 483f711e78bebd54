package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

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

// Seal encrypts at most MaxSize bytes to the recipients and returns the age file
// in base64, on one line. age puts classic and post-quantum recipients in no file
// together: for both there are two, with a dot between them.
func Seal(plain []byte, recipients ...age.Recipient) (string, error) {
	if len(plain) > MaxSize {
		return "", fmt.Errorf("seal: %d bytes are more than %d", len(plain), MaxSize)
	}
	if len(recipients) == 0 {
		return "", errors.New("seal: no recipients")
	}
	classic, hybrid := byKind(recipients)
	var out []string
	for _, group := range [][]age.Recipient{classic, hybrid} {
		if len(group) == 0 {
			continue
		}
		data, err := encrypt(plain, group)
		if err != nil {
			return "", fmt.Errorf("seal: %w", err)
		}
		out = append(out, base64.StdEncoding.EncodeToString(data))
	}
	return strings.Join(out, "."), nil
}

func byKind(recipients []age.Recipient) (classic, hybrid []age.Recipient) {
	for _, r := range recipients {
		if _, ok := r.(*age.HybridRecipient); ok {
			hybrid = append(hybrid, r)
		} else {
			classic = append(classic, r)
		}
	}
	return classic, hybrid
}

func encrypt(plain []byte, recipients []age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Label puts a word in front of what was sealed, in clear, that says for whom it
// is: age itself doesn't tell. The word has no colon. Unseal takes no notice of it.
func Label(sealed, word string) string { return word + ":" + sealed }

// LabelOf gives the word that Label put there, "" if there is none.
func LabelOf(sealed string) string {
	if word, _, ok := strings.Cut(sealed, ":"); ok {
		return word
	}
	return ""
}

// Unseal returns what was sealed, all of it or an error: ErrNoKey, ErrCorrupt.
func Unseal(sealed string, identities ...age.Identity) ([]byte, error) {
	if len(identities) == 0 {
		return nil, fmt.Errorf("unseal: %w: no identity given", ErrNoKey)
	}
	if _, rest, ok := strings.Cut(sealed, ":"); ok {
		sealed = rest
	}
	var err error
	for part := range strings.SplitSeq(sealed, ".") {
		var plain []byte
		if plain, err = unseal(part, identities); err == nil {
			return plain, nil
		}
		if !errors.Is(err, ErrNoKey) {
			break
		}
	}
	return nil, fmt.Errorf("unseal: %w", err)
}

func unseal(part string, identities []age.Identity) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	r, err := age.Decrypt(bytes.NewReader(data), identities...)
	if noMatch := new(age.NoIdentityMatchError); errors.As(err, &noMatch) {
		return nil, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err == nil && len(plain) > MaxSize {
		err = fmt.Errorf("more than %d bytes", MaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return plain, nil
}
