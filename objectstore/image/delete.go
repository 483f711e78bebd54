package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// ErrInUse: a session goes on from the snapshot, so it stays.
var ErrInUse = errors.New("snapshot is in use")

// DeleteSnapshot deletes a snapshot, and the packs that no other snapshot of its
// lineage names. The header goes first: what a crash leaves behind is unused
// packs. While another header of the lineage can't be read, what it needs is unknown:
// all packs stay and the error says so, wrapping ErrCorrupt or ErrForged; the snapshot
// itself is deleted all the same.
//
// The snapshot is marked before unused is asked, once, whether no session's record
// points at it: who takes it for a session writes that down first and looks for
// the mark then (Marked), so one of the two sees the other. If it is in use the mark
// is taken back and the error is ErrInUse. Deleting a snapshot that isn't there is no
// error.
func DeleteSnapshot(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID, name string, trusted Trusted, unused func(context.Context) (bool, error)) error {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	if _, _, err := l.parseSnap(name); err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	s, err := fetchTrusted(ctx, store, l, name, trusted)
	if errors.Is(err, ErrNotFound) {
		return unmark(ctx, store, l, name)
	}
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	unreadable := err
	if err := deleteMarked(ctx, store, l, name, unused); err != nil {
		return fmt.Errorf("delete snapshot %s: %w", name, err)
	}
	if unreadable != nil {
		return fmt.Errorf("delete snapshot %s: it is deleted, but its packs stay: %w", name, unreadable)
	}
	return deletePacks(ctx, store, l, s.header.Packs, trusted)
}

// deleteMarked deletes one header under the protection of its mark.
func deleteMarked(ctx context.Context, store objectstore.Store, l lineage, name string, unused func(context.Context) (bool, error)) error {
	if err := mark(ctx, store, l, name); err != nil {
		return err
	}
	ok, err := unused(ctx)
	if err == nil && !ok {
		err = ErrInUse
	}
	if err == nil {
		err = store.Delete(ctx, name)
	}
	// Also after a failure: the mark would keep the snapshot from being used.
	return errors.Join(err, unmark(context.WithoutCancel(ctx), store, l, name))
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

// namedObjects collects what the lineage's headers name; keys by l.key of their
// kid. One header that can't be read makes all of it unknown.
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
		eachNamed(l, s.Header, func(name string, _ int64) { named[name] = true })
	}
	return named, nil
}

// eachNamed calls fn for every object that a header needs besides its own, with its
// size in bytes, -1 where it isn't known. A key is given by the name of its first
// wrap, which may be kept under another one.
func eachNamed(l lineage, h schemas.ImageHeader, fn func(name string, size int64)) {
	fn(l.key(h.KID), -1)
	for _, p := range h.Packs {
		fn(l.key(p.KID), -1)
		fn(l.pack(p.Name), p.Size)
		fn(l.ids(p.Name), p.IDs.Size)
	}
}
