package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/objectstore"
)

// ErrUnproven: whether a snapshot is of use can't be said now.
var ErrUnproven = errors.New("the state of the image is not proven")

// Prove reads all that a snapshot consists of, from the store and whole, and decrypts nothing. The error is
// ErrNotFound or ErrCorrupt if it is proven that the snapshot can't be read: the store answered, before
// and after, that it has the keys of the snapshot's lineage, so that it is the store that the snapshot was
// written to. It is nil if all is as it was written. All else says nothing of the snapshot, and is another error.
// A store that lists late is no matter: what the snapshot consists of is asked for by name.
func Prove(ctx context.Context, store objectstore.Store, head Head, o ReadOptions) error {
	place, err := lineageOf(head.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	if err := answers(ctx, store, place); err != nil {
		return err
	}
	err = readAll(ctx, store, place, head, o)
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if again := answers(ctx, store, place); again != nil {
		return again
	}
	return err
}

// answers reports whether a store has a key of a lineage, which is there as long as the lineage is.
func answers(ctx context.Context, store objectstore.Store, place lineage) error {
	keys := 0
	err := store.List(ctx, place.keys(), func(objectstore.Info) error { keys++; return nil })
	if err != nil {
		return unproven(err)
	}
	if keys == 0 {
		return fmt.Errorf("%w: the store has no key of %s", ErrUnproven, place.prefix())
	}
	return nil
}

// unproven hides from who asks what kind of error it was.
func unproven(err error) error { return fmt.Errorf("%w: %v", ErrUnproven, err) }

func readAll(ctx context.Context, store objectstore.Store, place lineage, head Head, o ReadOptions) error {
	s, err := fetchHead(ctx, store, place, head, o)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
		return err
	}
	if err != nil {
		return unproven(err)
	}
	if _, err := fetchObject(ctx, store, head.Name, s.size, s.header.Index); err != nil {
		return corruptOr(err)
	}
	for _, p := range s.header.Packs {
		name := place.pack(p.Name)
		_, intact, err := comparePack(ctx, store, name, p)
		switch {
		case errors.Is(err, objectstore.ErrNotFound):
			return fmt.Errorf("%w: %s is missing", ErrCorrupt, name)
		case err != nil:
			return unproven(err)
		case !intact:
			return fmt.Errorf("%w: %s is not what was written", ErrCorrupt, name)
		}
	}
	return nil
}

func corruptOr(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return unproven(err)
}
