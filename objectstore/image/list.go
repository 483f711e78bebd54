package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Listed is one snapshot of a lineage.
type Listed struct {
	Head   Head
	Header schemas.ImageHeader // as far as it can be read, if Err is set
	Err    error               // why it can't be used: ErrCorrupt or ErrForged
}

// List reads the headers of a lineage's snapshots, ordered by epoch and
// sequence: the newest last. It needs no secret. Snapshots that are damaged or
// not trusted are listed with their error; those whose name says no epoch come
// first. Only the session's record says which of them is its head.
func List(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string, trusted Trusted) ([]Listed, error) {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	names, err := listNames(ctx, store, l.snaps())
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	slices.SortFunc(names, func(a, b string) int {
		epochA, seqA, _ := l.parseSnap(a)
		epochB, seqB, _ := l.parseSnap(b)
		return cmp.Or(cmp.Compare(epochA, epochB), cmp.Compare(seqA, seqB), cmp.Compare(a, b))
	})
	var all []Listed
	for _, name := range names {
		s, err := fetchTrusted(ctx, store, l, name, trusted)
		if errors.Is(err, objectstore.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		listed := Listed{Head: Head{Name: name}, Header: s.header, Err: err}
		if s.signed != nil {
			listed.Head.Digest = s.digest()
		}
		all = append(all, listed)
	}
	return all, nil
}

func listNames(ctx context.Context, store objectstore.Store, prefix string) ([]string, error) {
	var names []string
	err := store.List(ctx, prefix, func(i objectstore.Info) error {
		names = append(names, i.Name)
		return nil
	})
	return names, err
}
