package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/objectstore"
)

func (l lineage) marks() string { return l.prefix() + "marks/" }

// clock begins the names of objects that are written to learn the store's time.
func (l lineage) clock() string { return l.marks() + "clock-" }

// mark is the name of the mark of an object: "marks/" and the object's own name
// within the lineage.
func (l lineage) mark(name string) string { return l.marks() + strings.TrimPrefix(name, l.prefix()) }

// marked is the object that a mark is of.
func (l lineage) marked(mark string) string { return l.prefix() + strings.TrimPrefix(mark, l.marks()) }

// mark announces that an object is going to be deleted.
func mark(ctx context.Context, store objectstore.Store, l lineage, name string) error {
	err := store.Put(ctx, l.mark(name), strings.NewReader(""), 0)
	if err != nil && !errors.Is(err, objectstore.ErrExists) {
		return fmt.Errorf("mark: %w", err)
	}
	return nil
}

func unmark(ctx context.Context, store objectstore.Store, l lineage, name string) error {
	if err := store.Delete(ctx, l.mark(name)); err != nil {
		return fmt.Errorf("take back the mark: %w", err)
	}
	return nil
}

// Marked reports whether a snapshot is about to be deleted, or gone. Who makes a
// session go on from a snapshot asks after the session's record says so, and undoes
// that if it is.
func Marked(ctx context.Context, store objectstore.Store, head Head) (bool, error) {
	l, err := lineageOf(head.Name)
	if err != nil {
		return false, err
	}
	for _, name := range []string{l.mark(head.Name), head.Name} {
		r, err := store.Get(ctx, name, 0, 1)
		if err == nil {
			r.Close()
		}
		switch there := err == nil; {
		case err != nil && !errors.Is(err, objectstore.ErrNotFound):
			return false, fmt.Errorf("look whether snapshot %s is being deleted: %w", head.Name, err)
		case there != (name == head.Name):
			return true, nil
		}
	}
	return false, nil
}
