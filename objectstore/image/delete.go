package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// DeleteSnapshot deletes a snapshot, and the packs that no other snapshot of its
// lineage names. The header goes first: what a crash leaves behind is unused
// packs. While another header of the lineage can't be read, nobody knows what it
// needs, so all packs stay and the error says so, wrapping ErrCorrupt or ErrForged;
// the snapshot itself is deleted all the same.
//
// The caller sees to it that the snapshot is not the head of a session, and that
// no image is being written with it as its base. Deleting a snapshot that isn't
// there is no error.
func DeleteSnapshot(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID, name string, trusted Trusted) error {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	if _, _, err := l.parseSnap(name); err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	s, err := fetchTrusted(ctx, store, l, name, trusted)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	unreadable := err
	if err := store.Delete(ctx, name); err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	if unreadable != nil {
		return fmt.Errorf("delete snapshot %s: it is deleted, but its packs stay: %w", name, unreadable)
	}
	return deletePacks(ctx, store, l, s.header.Packs, trusted)
}

// deletePacks deletes those of the packs that no header names.
func deletePacks(ctx context.Context, store objectstore.Store, l lineage, packs []schemas.ImagePack, trusted Trusted) error {
	named, err := namedObjects(ctx, store, l, trusted)
	if err != nil {
		return fmt.Errorf("delete packs of %s: they stay: %w", l.prefix(), err)
	}
	for _, p := range packs {
		if named[l.pack(p.Name)] {
			continue
		}
		if err := errors.Join(store.Delete(ctx, l.ids(p.Name)), store.Delete(ctx, l.pack(p.Name))); err != nil {
			return fmt.Errorf("delete packs: %w", err)
		}
	}
	return nil
}

// namedObjects collects what the lineage's headers name. One header that can't be
// read makes all of it unknown.
func namedObjects(ctx context.Context, store objectstore.Store, l lineage, trusted Trusted) (map[string]bool, error) {
	all, err := List(ctx, store, l.tenant, l.id, trusted)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, s := range all {
		if s.Err != nil {
			return nil, fmt.Errorf("what %s needs is unknown: %w", s.Head.Name, s.Err)
		}
		named[l.key(s.Header.KID)] = true
		for _, p := range s.Header.Packs {
			named[l.pack(p.Name)], named[l.ids(p.Name)], named[l.key(p.KID)] = true, true, true
		}
	}
	return named, nil
}

// Collect deletes what no header of a lineage names and what was stored before a
// moment: the packs and keys of captures that never came to their end. The moment
// must lie further back than the longest capture takes. It returns the names of
// what it deleted; while a header can't be read it deletes nothing.
func Collect(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string, trusted Trusted, before time.Time) ([]string, error) {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	// First what may go, then what is named: an image that is committed in between
	// is seen.
	var old []string
	err = store.List(ctx, l.prefix(), func(i objectstore.Info) error {
		if i.ModTime.Before(before) && !strings.HasPrefix(i.Name, l.snaps()) {
			old = append(old, i.Name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	named, err := namedObjects(ctx, store, l, trusted)
	if err != nil {
		return nil, fmt.Errorf("collect: nothing is deleted: %w", err)
	}
	var deleted []string
	for _, name := range old {
		if named[name] || named[l.key(l.kidOf(name))] {
			continue
		}
		if err := store.Delete(ctx, name); err != nil {
			return deleted, fmt.Errorf("collect: %w", err)
		}
		deleted = append(deleted, name)
	}
	return deleted, nil
}

// DeleteLineage shreds a lineage: its keys go first, so that what is left at any
// moment of it can't be read any more, then its snapshots, then the rest. It can
// be repeated until it succeeds.
func DeleteLineage(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string) error {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return fmt.Errorf("delete lineage: %w", err)
	}
	for _, prefix := range []string{l.keys(), l.snaps(), l.prefix()} {
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
