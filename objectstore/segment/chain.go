package segment

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/diapause/diapause/objectstore"
)

// Linked is one segment of a chain, or what is in its place.
type Linked struct {
	Ref
	Header Header
	Err    error // it is missing, damaged or not genuine
}

// Walk gives the segments of a chain from a number on, the first one first, from the one at its
// end. It reads headers alone. Where one can't be read the chain ends: those before it are known by nothing
// but their names. The error is the store's, for as long as that answers nothing.
func Walk(ctx context.Context, store objectstore.Store, end Ref, from uint64, trusted Trusted) ([]Linked, error) {
	var chain []Linked
	for at := end; at.Number > 0 && at.Number >= from; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("follow the chain of log segments: %w", err)
		}
		h, _, err := ReadHeader(ctx, store, at, trusted)
		if err != nil && !lasting(err) {
			return nil, fmt.Errorf("follow the chain of log segments: %w", err)
		}
		chain = append(chain, Linked{Ref: at, Header: h, Err: err})
		if err != nil || h.Previous == nil {
			break
		}
		at = *h.Previous
	}
	slices.Reverse(chain)
	return chain, nil
}

// List gives the names of the segments in the store whose number is above one, by number, whether a
// chain has them or not; and all names below Prefix that are no segment's.
func List(ctx context.Context, store objectstore.Store, above uint64) (names, foreign []string, err error) {
	err = store.List(ctx, Prefix, func(i objectstore.Info) error {
		switch number, ok := NumberOf(i.Name); {
		case !ok:
			foreign = append(foreign, i.Name)
		case number > above:
			names = append(names, i.Name)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list log segments: %w", err)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return names, foreign, nil
}
