package keys

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// Ring knows the records' last word, or nearly. What must not be out of date reads
// the records themselves; the rest is told when they change. It is safe for
// concurrent use.
type Ring struct {
	store   *keykv.Store
	changed chan struct{} // of capacity 1

	mu      sync.Mutex
	records map[schemas.Tenant]keykv.Versioned
}

// NewRing makes a ring; Serve keeps it up to date.
func NewRing(store *keykv.Store) *Ring {
	return &Ring{store: store, changed: make(chan struct{}, 1), records: map[schemas.Tenant]keykv.Versioned{}}
}

// Serve follows the records until ctx ends.
func (r *Ring) Serve(ctx context.Context) error {
	if err := r.store.Watch(ctx, r.put, func() {}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("follow the keys: %w", err)
	}
	return nil
}

func (r *Ring) put(v keykv.Versioned) {
	r.mu.Lock()
	newer := v.Seq > r.records[v.Tenant].Seq
	if newer {
		r.records[v.Tenant] = v
	}
	r.mu.Unlock()
	if newer {
		select {
		case r.changed <- struct{}{}:
		default: // it is known already
		}
	}
}

// Refresh reads the records that count for a tenant, and gives what they say.
func (r *Ring) Refresh(ctx context.Context, t schemas.Tenant) (Set, error) {
	every, err := r.store.Get(ctx, "")
	if err != nil {
		return Set{}, err
	}
	r.put(every)
	if t == "" {
		return SetOf(every.TenantKeys, schemas.TenantKeys{}), nil
	}
	own, err := r.store.Get(ctx, t)
	if err != nil {
		return Set{}, err
	}
	if own.Seq > 0 {
		r.put(own)
	}
	return SetOf(every.TenantKeys, own.TenantKeys), nil
}

// Set gives what is known of a tenant without asking anybody.
func (r *Ring) Set(t schemas.Tenant) Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t == "" {
		return SetOf(r.records[""].TenantKeys, schemas.TenantKeys{})
	}
	return SetOf(r.records[""].TenantKeys, r.records[t].TenantKeys)
}

// Readers gives for whom images of a tenant are, as the records say now.
func (r *Ring) Readers(ctx context.Context, t schemas.Tenant) (image.Readers, error) {
	s, err := r.Refresh(ctx, t)
	if err != nil {
		return image.Readers{}, err
	}
	return s.Images()
}

// Sealers gives to whom it is sealed how a tenant's sessions are to be started, as
// the records say now, and a word that stands for them.
func (r *Ring) Sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, string, error) {
	s, err := r.Refresh(ctx, t)
	if err != nil {
		return nil, "", err
	}
	return s.Sealers()
}

// Writers gives the keys that a host signs a tenant's images with, or did, as the
// records say now; what can't be read now is as it was last known.
func (r *Ring) Writers(ctx context.Context, t schemas.Tenant) func(tenant, signer string) []image.WriterKey {
	_, _ = r.Refresh(ctx, t) // else what is known has to do
	return r.known
}

func (r *Ring) known(tenant, signer string) []image.WriterKey {
	return r.Set(schemas.Tenant(tenant)).WriterKeys(signer)
}

// Trusted gives the keys that images of a tenant may be signed with.
func (r *Ring) Trusted(tenant, signer string) []ed25519.PublicKey {
	return image.TrustedWhen(r.known, nil)(tenant, signer)
}

// Known gives the keys that images of a tenant may ever have been signed with. It
// is for those who keep what an image needs: believing too much keeps too much,
// and loses nothing.
func (r *Ring) Known(tenant, signer string) []ed25519.PublicKey {
	return image.TrustedWhen(r.known, func() time.Time { return time.Unix(0, 1) })(tenant, signer)
}

// Recorded gives the moment, by the log's clock, at which a snapshot became the
// head of a session; zero if it never did.
func Recorded(history []statekv.Versioned, head schemas.Head) time.Time {
	for _, v := range history {
		if v.Head != nil && *v.Head == head {
			return v.Stored
		}
	}
	return time.Time{}
}
