package seal

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
)

// ParseRecipient reads a public key of age, X25519 or hybrid post-quantum. A secret key that
// was given in its place isn't repeated in the error.
func ParseRecipient(text string) (age.Recipient, error) {
	if strings.Contains(strings.ToUpper(text), "AGE-SECRET-KEY-") {
		return nil, errors.New("this is a secret key and now exposed: replace it")
	}
	if strings.HasPrefix(text, "age1pq1") {
		if r, err := age.ParseHybridRecipient(text); err == nil {
			return r, nil
		}
	} else if r, err := age.ParseX25519Recipient(text); err == nil {
		return r, nil
	}
	return nil, fmt.Errorf("%.80q is not a public key of age (age1… or age1pq1…)", text)
}
