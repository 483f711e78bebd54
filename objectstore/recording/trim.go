package recording

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/diapause/diapause/objectstore"
)

// Trim deletes the oldest segments of a recording until what is left takes at most keep bytes, but never the last one. What
// follows on them is read as before.
func Trim(ctx context.Context, store objectstore.Store, p Place, keep int64) error {
	type stored struct {
		Ref
		size int64
	}
	var all []stored
	var sum int64
	err := store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		if run, number, ok := p.parseName(i.Name); ok {
			all = append(all, stored{Ref{Run: run, Number: number}, i.Size})
			sum += i.Size
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list a recording: %w", err)
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number)) })
	for _, s := range all[:max(len(all)-1, 0)] {
		if sum <= keep {
			break
		}
		if err := store.Delete(ctx, p.Name(s.Run, s.Number)); err != nil {
			return fmt.Errorf("shorten a recording: %w", err)
		}
		sum -= s.size
	}
	return nil
}
