package run

import (
	"context"
	"crypto/ed25519"
	"log/slog"

	"filippo.io/age"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/services/datadir"
	keyring "github.com/diapause/diapause/services/keys"
)

// hostKeys are a host's own keys, and who else reads its images.
type hostKeys struct {
	*datadir.Keys
	config Keys
}

// reading are the identities that open images here.
func (k hostKeys) reading() []age.Identity {
	if k.config.SuspendOnly {
		return k.Identities[1:] // without the directory's own
	}
	return k.Identities
}

// register registers the keys of this host, and gives what says who reads and writes
// images.
func (m machine) register(ctx context.Context, log *slog.Logger) (*keyring.Keeper, error) {
	k := m.keys
	store, err := keykv.Open(ctx, m.js, m.names)
	if err != nil {
		return nil, err
	}
	err = keyring.Register(ctx, store, keyring.Registration{
		Host: m.data.Host(), Signing: k.Signer.Public().(ed25519.PublicKey), Recipient: k.Own.Recipient().String(),
		SuspendOnly: k.config.SuspendOnly, Further: k.config.Recipients, Identities: keyring.RecipientsOf(k.Identities),
	})
	if err != nil {
		return nil, err
	}
	ring := keyring.NewRing(store)
	if _, err := ring.Refresh(ctx, ""); err != nil {
		return nil, err
	}
	return keyring.NewKeeper(keyring.Options{
		Ring: ring, Records: m.records, Images: m.images, Identities: k.Identities, Host: m.data.Host(), Log: log,
	}), nil
}
