package snapshots

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Keyring says who reads the images of each tenant and who may write them. What it
// says is as the records have it at the moment of asking.
type Keyring interface {
	// Readers gives for whom images of a tenant are.
	Readers(ctx context.Context, t schemas.Tenant) (image.Readers, error)
	// Sealers gives to whom it is sealed how a tenant's sessions are to be started
	// and what they printed last, and a word that stands for them.
	Sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, string, error)
	// Writers gives a function for the keys that a host signs a tenant's images
	// with, revoked ones included.
	Writers(ctx context.Context, t schemas.Tenant) func(tenant, signer string) []image.WriterKey
	// Lineage wraps the keys of a session's images to the readers of now.
	Lineage(ctx context.Context, v statekv.Versioned) error
}

// Readers gives for whom images and recordings of a tenant are.
func (s *Store) Readers(ctx context.Context, t schemas.Tenant) (image.Readers, error) {
	if s.Keyring == nil {
		return image.Readers{Recipients: s.Recipients}, nil
	}
	r, err := s.Keyring.Readers(ctx, t)
	if err == nil && len(r.Recipients) == 0 {
		err = &driver.Error{Kind: driver.Refused, Text: "no key could open an image of tenant " + string(t), Hint: "add a reader: `diapause key add`"}
	}
	return r, err
}

// Signers gives the keys that a tenant trusts today.
func (s *Store) Signers(ctx context.Context, t schemas.Tenant) func(signer string) []ed25519.PublicKey {
	trusted := s.Trusted
	if s.Keyring != nil {
		trusted = image.TrustedWhen(s.Keyring.Writers(ctx, t), nil)
	}
	return func(signer string) []ed25519.PublicKey { return trusted(string(t), signer) }
}

func (s *Store) sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, error) {
	if s.Keyring == nil {
		return s.Recipients, nil
	}
	to, _, err := s.Keyring.Sealers(ctx, t)
	return to, err
}

// maySign refuses to write an image that every reader would reject.
func (s *Store) maySign(ctx context.Context, t schemas.Tenant) error {
	if s.Keyring == nil {
		return nil
	}
	own := s.Signer.Public().(ed25519.PublicKey)
	for _, k := range s.Keyring.Writers(ctx, t)(string(t), string(s.Host)) {
		if k.Key.Equal(own) && k.Revoked.IsZero() {
			return nil
		}
	}
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("tenant %s doesn't trust the signing key of host %s", t, s.Host),
		Hint: "`diapause key ls` shows whether it was revoked"}
}

// trusts gives the keys that a snapshot which a session's record names may be
// signed with. When it was recorded is looked up only if that matters: if its
// writer was revoked since.
func (s *Store) trusts(ctx context.Context, r schemas.SessionRecord, head schemas.Head) image.Trusted {
	if s.Keyring == nil {
		return s.Trusted
	}
	return image.TrustedWhen(s.Keyring.Writers(ctx, r.Tenant), func() time.Time { return s.recorded(ctx, r, head) })
}

// recorded gives the moment, by the log's clock, at which a snapshot became a head
// of the session, or of the one that it was forked from; zero if it never did, or
// that can't be found out.
func (s *Store) recorded(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (at time.Time) {
	look := func(v statekv.Versioned) error {
		if at.IsZero() && v.Head != nil && *v.Head == head {
			at = v.Stored
		}
		return nil
	}
	var err error
	if lineage, lerr := LineageOf(r, head); lerr == nil && lineage == r.Lineage {
		var history []statekv.Versioned
		history, err = s.Records.History(ctx, r.Name())
		for _, v := range history {
			_ = look(v) // it never fails
		}
	} else {
		err = s.Records.Log(ctx, look) // the head doesn't say whose it was
	}
	if err != nil {
		s.Log.Warn("could not look up when a snapshot was recorded", r.Logged("err", err)...)
		return time.Time{}
	}
	return at
}

// FollowReaders wraps the keys of an image again if its tenant's readers have changed since
// before, while it was written. What fails is left to the keeper.
func (s *Store) FollowReaders(ctx context.Context, rec statekv.Versioned, before image.Readers) {
	if s.Keyring == nil {
		return
	}
	now, err := s.Keyring.Readers(ctx, rec.Tenant)
	if err == nil && now.Version != before.Version {
		err = s.Keyring.Lineage(ctx, rec)
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("could not wrap the keys of an image to its new readers", rec.Logged("err", err)...)
	}
}
