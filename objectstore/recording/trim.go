package recording

import (
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

// Room is what a recording takes in the store, as far as the one host knows that stores all that comes of it at the time. The zero Room knows
// nothing. It is for one goroutine.
type Room struct {
	known    bool
	segments int64 // bytes, not below what there is
	lists    int64
}

// slack is the part of what is kept that is deleted at once, when there is more than that: so the recording is listed once for so much.
const slack = 16

// Add takes in what was stored: the bytes of a segment, and of its list.
func (r *Room) Add(segment, list int64) {
	r.segments += segment
	r.lists += list
}

// Trim deletes the oldest segments of a recording if all take more than keep bytes, until that is less by a bit, but never the last one. What
// follows on them is read as before. The oldest lists of commands go in the same way. It lists the recording only if there may be
// something to delete.
func (r *Room) Trim(ctx context.Context, store objectstore.Store, p Place, keep int64) error {
	keepLists := max(keep/listPart, listLeast)
	if r.known && r.segments <= keep && r.lists <= keepLists {
		return nil
	}
	r.known = false
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
	var segmentsErr, listsErr error
	r.segments, segmentsErr = trim(ctx, store, segments, keep)
	r.lists, listsErr = trim(ctx, store, lists, keepLists)
	err = errors.Join(segmentsErr, listsErr)
	r.known = err == nil
	return err
}

// trim deletes the oldest objects, but never those of the last segment, and says what is left. While something is redacted these are two,
// and one of them counts.
func trim(ctx context.Context, store objectstore.Store, all []stored, keep int64) (sum int64, err error) {
	for _, s := range all {
		sum += s.size
	}
	if sum > keep {
		keep -= keep / slack
	}
	slices.SortFunc(all, func(a, b stored) int { return inOrder(a.Ref, b.Ref) })
	for _, s := range all {
		if sum <= keep || inOrder(s.Ref, all[len(all)-1].Ref) == 0 {
			break
		}
		if err := store.Delete(ctx, s.name); err != nil {
			return sum, fmt.Errorf("shorten a recording: %w", err)
		}
		sum -= s.size
	}
	return sum, nil
}
