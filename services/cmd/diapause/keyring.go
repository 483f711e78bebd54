package main

import (
	"context"
	"crypto/ed25519"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"filippo.io/age"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/services/datadir"
	keyring "github.com/diapause/diapause/services/keys"
)

// hostKeys are a host's own keys, and whom it is told of.
type hostKeys struct {
	*datadir.Keys
	further     []string // recipients
	suspendOnly bool
}

// reading are the identities that open images here.
func (k hostKeys) reading() []age.Identity {
	if k.suspendOnly {
		return k.Identities[1:] // without the directory's own
	}
	return k.Identities
}

// keeperOf registers the keys of this host, and gives what says who reads and
// writes images.
func keeperOf(ctx context.Context, js jetstream.JetStream, names stream.Names, data *datadir.Dir, k hostKeys,
	records *statekv.Store, images objectstore.Store, log *slog.Logger) (*keyring.Keeper, error) {
	store, err := keykv.Open(ctx, js, names)
	if err != nil {
		return nil, err
	}
	err = keyring.Register(ctx, store, keyring.Registration{
		Host: data.Host(), Signing: k.Signer.Public().(ed25519.PublicKey), Recipient: k.Own.Recipient().String(),
		SuspendOnly: k.suspendOnly, Further: k.further, Identities: keyring.RecipientsOf(k.Identities),
	})
	if err != nil {
		return nil, err
	}
	ring := keyring.NewRing(store)
	if _, err := ring.Refresh(ctx, ""); err != nil {
		return nil, err
	}
	return keyring.NewKeeper(keyring.Options{
		Ring: ring, Records: records, Images: images, Identities: k.Identities, Host: data.Host(), Log: log,
	}), nil
}
