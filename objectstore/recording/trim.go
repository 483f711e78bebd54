package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/objectstore"
)

// Lists of commands stay when their segments are deleted, but take at most this part of what is kept. So many bytes of them are kept
// always.
const (
	listPart  = 4
	listLeast = 1 << 20
)

// stored is an object of a recording.
type stored struct {
	Ref
	name string
	size int64
}

// Trim deletes the oldest segments of a recording until what is left takes at most keep bytes, but never the last one. What
// follows on them is read as before. The oldest lists of commands go in the same way.
func Trim(ctx context.Context, store objectstore.Store, p Place, keep int64) error {
	var segments, lists []stored
	err := store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		is, ok := p.parse(i.Name)
		switch of := (stored{is.Ref, i.Name, i.Size}); {
		case ok && is.list:
			lists = append(lists, of)
		case ok:
			segments = append(segments, of)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list a recording: %w", err)
	}
	return errors.Join(trim(ctx, store, segments, keep), trim(ctx, store, lists, max(keep/listPart, listLeast)))
}

// trim deletes the oldest objects, but never the last one.
func trim(ctx context.Context, store objectstore.Store, all []stored, keep int64) error {
	var sum int64
	for _, s := range all {
		sum += s.size
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number)) })
	for _, s := range all[:max(len(all)-1, 0)] {
		if sum <= keep {
			break
		}
		if err := store.Delete(ctx, s.name); err != nil {
			return fmt.Errorf("shorten a recording: %w", err)
		}
		sum -= s.size
	}
	return nil
}
