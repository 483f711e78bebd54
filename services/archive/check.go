package archive

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/objectstore/segment"
)

// Untouched reads a log of which nothing was ever moved.
func Untouched(records Records) *Reader { return &Reader{Records: records, Heads: noHead{}} }

// noHead is the Heads of a log of which nothing was moved.
type noHead struct{}

func (noHead) Get(context.Context) (Head, uint64, error) { return Head{}, 0, nil }

func (noHead) Swap(context.Context, uint64, Head) (uint64, error) {
	return 0, fmt.Errorf("write the end of the log's archive: %w", ErrMoved)
}

// Checked is what was found of the chain of segments.
type Checked struct {
	Segments  int
	ReadBytes int64
	Problems  []string
	Notes     []string // where the log went back
	Unknown   []string // segments that the chain hasn't got; never touched
	Foreign   []string // objects among them that are none
}

// Check follows the chain of segments; with data it reads each and compares it with its digest. It
// needs no key.
func (r *Reader) Check(ctx context.Context, data bool) (out Checked, err error) {
	h, _, err := r.Heads.Get(ctx)
	if err != nil {
		return out, err
	}
	chain, err := segment.Walk(ctx, r.Store, h.End, 1, r.Known)
	if err != nil {
		return out, err
	}
	for _, f := range h.Forks {
		out.Notes = append(out.Notes, f.String())
	}
	linked := map[string]bool{}
	for i, l := range chain {
		linked[l.Name] = true
		err := l.Err
		if err == nil && data {
			if l.Header, err = segment.Compare(ctx, r.Store, l.Ref, r.Known); ctx.Err() != nil {
				return out, ctx.Err()
			}
			out.ReadBytes += l.Header.Size
		}
		switch {
		case err == nil:
			out.Segments++
		case i == 0 && l.Number > 1:
			out.Problems = append(out.Problems, fmt.Sprintf("%v; numbers 1 to %d can't be found without it", err, l.Number-1))
		default:
			out.Problems = append(out.Problems, err.Error())
		}
	}
	names, foreign, err := segment.List(ctx, r.Store, 0)
	if err != nil {
		return out, err
	}
	out.Foreign = foreign
	for _, name := range names {
		if !linked[name] {
			out.Unknown = append(out.Unknown, name)
		}
	}
	return out, nil
}
