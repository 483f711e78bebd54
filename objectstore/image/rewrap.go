package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Readers says for whom images are, as WriteOptions has it too: the recipients, as
// of a version that grows with every change of who they are.
type Readers struct {
	Recipients []age.Recipient
	Version    uint64
	Generation uint64 // WriteOptions.KeyGeneration
	FullSince  uint64
}

// Rewrapped is what Rewrap found and did.
type Rewrapped struct {
	Keys    int      // lineage keys that there are
	Behind  int      // of them, keys that weren't wrapped to the readers, or still were to others
	Stored  int      // wraps
	Deleted int      // wraps to earlier readers
	Locked  []string // kids of the keys that had to stay behind: no identity opens them
}

// Rewrap wraps the keys of a lineage to the readers, and then deletes the wraps
// to those who were readers before. It writes nothing but keys/, needs an
// identity only for keys that are behind, and can be repeated after a failure or
// a crash at any moment: every key is wrapped to its old readers or to the new
// ones, or to both, all the time, even while others do the same with other
// readers in mind.
//
// A key that none of the identities opens is reported as locked; the others are
// seen to all the same.
func Rewrap(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string, identities []age.Identity, to Readers) (Rewrapped, error) {
	r, err := newRewrap(store, tenant, lineageID, identities, to)
	if err != nil {
		return Rewrapped{}, fmt.Errorf("rewrap: %w", err)
	}
	keys, err := r.list(ctx)
	if err != nil {
		return Rewrapped{}, fmt.Errorf("rewrap: %w", err)
	}
	out := Rewrapped{Keys: len(keys)}
	// All keys first: a snapshot may need more than one, and at any moment there
	// is a reader who has them all.
	var older []string
	for _, kid := range sorted(keys) {
		may, err := r.rewrap(ctx, kid, keys[kid], &out)
		if errors.Is(err, ErrNoKey) {
			out.Locked = append(out.Locked, kid)
			continue
		}
		if err != nil {
			return out, fmt.Errorf("rewrap key %s of %s: %w", kid, r.place.prefix(), err)
		}
		older = append(older, may...)
	}
	for _, name := range older {
		if err := r.store.Delete(ctx, r.place.keys()+name); err != nil {
			return out, fmt.Errorf("delete wraps to earlier readers: %w", err)
		}
		out.Deleted++
	}
	return out, nil
}

// Wraps tells what Rewrap would find, from the names of the objects alone.
func Wraps(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string, to Readers) (Rewrapped, error) {
	r, err := newRewrap(store, tenant, lineageID, nil, to)
	if err != nil {
		return Rewrapped{}, fmt.Errorf("look at keys: %w", err)
	}
	keys, err := r.list(ctx)
	if err != nil {
		return Rewrapped{}, fmt.Errorf("look at keys: %w", err)
	}
	out := Rewrapped{Keys: len(keys)}
	for _, wraps := range keys {
		if !wraps.plan(r.readers).done {
			out.Behind++
		}
	}
	return out, nil
}

type rewrap struct {
	store      objectstore.Store
	place      lineage
	identities []age.Identity
	readers    wrapSet
}

func newRewrap(store objectstore.Store, tenant schemas.Tenant, lineageID string, identities []age.Identity, to Readers) (*rewrap, error) {
	place, err := newLineage(tenant, lineageID)
	if err != nil {
		return nil, err
	}
	readers, err := newWrapSet(to.Version, to.Recipients)
	if err == nil && len(readers.groups) == 0 {
		err = errors.New("no recipients: the keys would be lost")
	}
	return &rewrap{store, place, identities, readers}, err
}

// list gives the wraps of each lineage key.
func (r *rewrap) list(ctx context.Context) (map[string]wrapsOf, error) {
	names, err := listNames(ctx, r.store, r.place.keys())
	if err != nil {
		return nil, err
	}
	keys := map[string]wrapsOf{}
	for _, name := range names {
		if kid := r.place.kidOf(name); isHex(kid, 16) {
			keys[kid] = append(keys[kid], strings.TrimPrefix(name, r.place.keys()))
		}
	}
	return keys, nil
}

func sorted(keys map[string]wrapsOf) (kids []string) {
	for kid := range keys {
		kids = append(kids, kid)
	}
	slices.Sort(kids)
	return kids
}

// rewrap sees to it that a key is wrapped to the readers, and gives the wraps that
// may go then.
func (r *rewrap) rewrap(ctx context.Context, kid string, wraps wrapsOf, out *Rewrapped) (older []string, err error) {
	plan := wraps.plan(r.readers)
	if plan.done {
		return nil, nil
	}
	out.Behind++
	if plan.put {
		err = r.put(ctx, kid, out)
	} else {
		err = r.opens(ctx, kid, plan.from)
	}
	if err != nil {
		return nil, err
	}
	return plan.older, nil
}

// put stores a key's wraps to the readers.
func (r *rewrap) put(ctx context.Context, kid string, out *Rewrapped) error {
	id, err := unwrapKey(ctx, r.store, r.place, kid, r.identities)
	if err != nil {
		return err
	}
	key, secret, err := halves(id)
	if err != nil {
		return err
	}
	wraps, err := r.readers.wrap(key, secret)
	if err != nil {
		return err
	}
	for _, w := range wraps {
		err := r.store.Put(ctx, r.place.keys()+w.name, bytes.NewReader(w.data), int64(len(w.data)))
		if errors.Is(err, ErrExists) {
			// Of an earlier attempt, most likely; but nothing goes on the word of a name.
			if err := r.opensOne(ctx, kid, w.name); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		out.Stored++
	}
	return nil
}

// opens checks that the wraps which the key is to rely on hold it.
func (r *rewrap) opens(ctx context.Context, kid string, version uint64) error {
	for _, g := range r.readers.groups {
		name := wrapName{kid, version, r.readers.digest, g.kind}.String()
		if err := r.opensOne(ctx, kid, name); err != nil {
			return err
		}
	}
	return nil
}

// opensOne checks that a wrap of the readers holds the key. One that is for other
// kinds of identities than are here has to be believed.
func (r *rewrap) opensOne(ctx context.Context, kid, name string) error {
	_, err := unwrapOne(ctx, r.store, r.place.keys()+name, kid, r.identities)
	if errors.Is(err, ErrNoKey) && !errors.Is(err, errGone) && r.mixed() {
		return nil
	}
	return err
}

// mixed reports whether there are wraps of more than one kind.
func (r *rewrap) mixed() bool { return len(r.readers.groups) > 1 }

// halves gives the two halves of an unwrapped lineage key.
func halves(id age.Identity) (LineageKey, string, error) {
	switch id := id.(type) {
	case *age.X25519Identity:
		public := id.Recipient().String()
		return LineageKey{KID: kidOf(public), Recipient: public}, id.String(), nil
	case *age.HybridIdentity:
		public := id.Recipient().String()
		return LineageKey{KID: kidOf(public), Recipient: public}, id.String(), nil
	}
	return LineageKey{}, "", fmt.Errorf("%w: a lineage key of an unknown kind", ErrCorrupt)
}
