package image

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// WriterKey is a key that a host signs images with, or did.
type WriterKey struct {
	Key     ed25519.PublicKey
	Revoked time.Time // zero: it is trusted
}

// TrustedWhen trusts a writer's keys that aren't revoked, and those that were
// revoked only after a snapshot had been recorded as the head of its session.
// recorded tells that moment, by the clock of the log, and is asked only if it
// matters; zero means never. What isn't in the log may have been made with a
// stolen key at any time; the time in its header proves nothing.
func TrustedWhen(writers func(tenant, signer string) []WriterKey, recorded func() time.Time) Trusted {
	return func(tenant, signer string) []ed25519.PublicKey {
		var keys []ed25519.PublicKey
		for _, w := range writers(tenant, signer) {
			if w.Revoked.IsZero() {
				keys = append(keys, w.Key)
				continue
			}
			if recorded == nil {
				continue
			}
			if at := recorded(); !at.IsZero() && at.Before(w.Revoked) {
				keys = append(keys, w.Key)
			}
		}
		return keys
	}
}

// Inspect reads and verifies the header that a head points at, as Open does, and
// nothing else. It needs no secret.
// Errors: ErrNotFound, ErrCorrupt, ErrForged, or what the store says.
func Inspect(ctx context.Context, store objectstore.Store, head Head, o ReadOptions) (schemas.ImageHeader, error) {
	place, err := lineageOf(head.Name)
	if err != nil {
		return schemas.ImageHeader{}, fmt.Errorf("inspect image: %w", err)
	}
	s, err := fetchHead(ctx, store, place, head, o)
	if err != nil {
		return schemas.ImageHeader{}, fmt.Errorf("inspect image: %w", err)
	}
	return s.header, nil
}
