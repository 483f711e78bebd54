package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// DeleteLineage shreds a lineage: its keys go first, so that what is left at any
// moment of it can't be read any more, then what is encrypted to its readers
// themselves, its recordings and snapshots, and the rest. It can be repeated until it succeeds.
//
// The store's Delete removes older versions as well. Copies elsewhere, such as a
// backup of the store or of a key object, are out of its reach.
func DeleteLineage(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string) error {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return fmt.Errorf("delete lineage: %w", err)
	}
	// The last prefix has the keys again: another host may have wrapped one
	// after they were listed.
	for _, prefix := range []string{l.keys(), l.outputs(), l.recordings(), l.snaps(), l.prefix()} {
		names, err := listNames(ctx, store, prefix)
		if err != nil {
			return fmt.Errorf("delete lineage %s: %w", strings.TrimSuffix(l.prefix(), "/"), err)
		}
		for _, name := range names {
			if err := store.Delete(ctx, name); err != nil {
				return fmt.Errorf("delete lineage %s: %w", strings.TrimSuffix(l.prefix(), "/"), err)
			}
		}
	}
	return nil
}

// DeleteKeys deletes what is left of a lineage's keys, and nothing else.
func DeleteKeys(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string) error {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return fmt.Errorf("delete keys: %w", err)
	}
	names, err := listNames(ctx, store, l.keys())
	if err != nil {
		return fmt.Errorf("delete keys of %s: %w", strings.TrimSuffix(l.prefix(), "/"), err)
	}
	for _, name := range names {
		if err := store.Delete(ctx, name); err != nil {
			return fmt.Errorf("delete keys of %s: %w", strings.TrimSuffix(l.prefix(), "/"), err)
		}
	}
	return nil
}
