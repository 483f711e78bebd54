package api

import (
	"context"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/keys"
)

// sealer seals how a session is to be started: to the recipients that the keeper of keys
// knows, or to fixed ones if there is none.
type sealer struct {
	keys       *keys.Keeper
	recipients []age.Recipient
}

// sealers gives to whom it is sealed how a tenant's sessions are to be started, and
// a word that stands for them.
func (s *sealer) sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, string, error) {
	if s.keys == nil {
		return s.recipients, "", nil
	}
	return s.keys.Ring.Sealers(ctx, t)
}

// seal seals how a session is to be started.
func (s *sealer) seal(ctx context.Context, t schemas.Tenant, spec []byte) (string, error) {
	to, word, err := s.sealers(ctx, t)
	if err != nil {
		return "", err
	}
	sealed, err := seal.Seal(spec, to...)
	if err == nil && word != "" {
		sealed = seal.Label(sealed, word)
	}
	return sealed, err
}
