package image

import (
	"context"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// KeyObject is a lineage key's secret half, wrapped to readers: an object that isn't stored yet.
type KeyObject struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// NewKey makes a key for what is kept beside the images of a lineage, and what has to be stored before
// anything that is encrypted to it: without that it can't be read.
func NewKey(tenant schemas.Tenant, lineageID string, to Readers) (LineageKey, []KeyObject, error) {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return LineageKey{}, nil, fmt.Errorf("make a key: %w", err)
	}
	readers, err := newWrapSet(to.Version, to.Recipients)
	if err != nil {
		return LineageKey{}, nil, fmt.Errorf("make a key: %w", err)
	}
	key, wraps, err := newKey(readers)
	if err != nil {
		return LineageKey{}, nil, err
	}
	var objects []KeyObject
	for _, w := range wraps {
		objects = append(objects, KeyObject{l.keys() + w.name, w.data})
	}
	return key, objects, nil
}

// Public gives the key as what things are encrypted to. It has to be the key that its id names.
func (k LineageKey) Public() (age.Recipient, error) { return k.recipient() }

// UnwrapKey fetches a lineage key and unwraps it.
// Errors: ErrNoKey, ErrCorrupt, ErrForged, or what the store says.
func UnwrapKey(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID, kid string, identities []age.Identity) (age.Identity, error) {
	l, err := newLineage(tenant, lineageID)
	if err == nil && !isHex(kid, 16) {
		err = errors.New("it is no id of a key")
	}
	if err != nil {
		return nil, fmt.Errorf("unwrap key %.20q: %w", kid, err)
	}
	return unwrapKey(ctx, store, l, kid, identities)
}
