package simulation

import (
	"crypto/rand"
	"errors"
	"fmt"

	"filippo.io/age"
)

// lock is a key in age's place that costs nothing: what it wraps is masked with a word
// of its own. Most of what a life takes would be X25519 otherwise, and no one breaks in
// here.
type lock [16]byte

func newLock() (l lock) {
	rand.Read(l[:])
	return l
}

// stanza is the kind of age's stanzas that a lock makes.
const stanza = "simulated"

var errLength = errors.New("a file key has another length")

func (l lock) mask(b []byte) ([]byte, error) {
	if len(b) != len(l) {
		return nil, errLength
	}
	out := make([]byte, len(l))
	for i := range out {
		out[i] = b[i] ^ l[i]
	}
	return out, nil
}

// String names it, as recipients are told apart by their names.
func (l lock) String() string { return fmt.Sprintf("lock%x", l[:]) }

// Wrap implements age.Recipient.
func (l lock) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	body, err := l.mask(fileKey)
	return []*age.Stanza{{Type: stanza, Body: body}}, err
}

// Unwrap implements age.Identity.
func (l lock) Unwrap(all []*age.Stanza) ([]byte, error) {
	for _, s := range all {
		if s.Type == stanza {
			return l.mask(s.Body)
		}
	}
	return nil, age.ErrIncorrectIdentity
}
