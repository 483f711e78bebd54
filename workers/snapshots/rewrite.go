package snapshots

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// rewriteKeeps is how much of a snapshot's pages is kept until they are needed again while it is rewritten, in bytes.
const rewriteKeeps = 64 << 20

// Rewritten is an image that was written once more.
type Rewritten struct {
	Head    schemas.Head
	Sizes   schemas.Sizes
	Readers image.Readers // that it was written for
}

// Rewrite writes a snapshot once more, whole, as the first image in the lineage of a record: with a key of its own, so that it
// needs nothing of the lineage that the snapshot is of. given is called with what says how many bytes were read so far, and how many
// there are. What the snapshot says of the session that it was taken of, its record and its recording, stays behind.
func (s *Store) Rewrite(ctx context.Context, rec statekv.Versioned, from schemas.Head, step func(context.Context, image.Step) error, given func(so func() int64, of int64)) (out Rewritten, err error) {
	lineage, err := LineageOf(rec.SessionRecord, from)
	if err == nil && lineage == rec.Lineage {
		err = fmt.Errorf("rewrite snapshot %s: it is of the same lineage", from.Name)
	}
	if err != nil {
		return out, err
	}
	img, err := s.Open(ctx, rec.SessionRecord, from)
	if err != nil {
		return out, err
	}
	defer img.Close()
	h := img.Header()
	given(img.Given, h.LogicalBytes)
	w, readers, err := s.Create(ctx, rec, Image{Fingerprint: h.Fingerprint, Time: h.Time, Dense: true, Step: step})
	if err != nil {
		return out, err
	}
	if err := copyEntries(w, img); err != nil {
		w.Abort()
		return out, fmt.Errorf("rewrite snapshot %s: %w", from.Name, err)
	}
	head, header, _, err := w.Commit(ctx)
	if err != nil {
		w.Abort()
		return out, fmt.Errorf("store image of %s: %w", rec.Name(), err)
	}
	sizes := schemas.Sizes{At: header.Time, Logical: header.LogicalBytes, New: header.NewBytes, Stored: header.StoredBytes}
	return Rewritten{Head: head, Sizes: sizes, Readers: readers}, nil
}

// copyEntries adds what an image has to another one, but for what it says of its session.
func copyEntries(to entries, from *image.Reader) error {
	var all []image.Entry
	var files []string
	for _, e := range from.Entries() {
		if strings.HasPrefix(e.Name, path.Dir(RecordEntry)+"/") {
			continue
		}
		all = append(all, e)
		if e.Type == image.TypeFile {
			files = append(files, e.Name)
		}
	}
	from.Sequence(files, rewriteKeeps)
	for _, e := range all {
		if err := copyEntry(to, from, e); err != nil {
			return err
		}
	}
	return nil
}

func copyEntry(to entries, from *image.Reader, e image.Entry) error {
	if e.Type != image.TypeFile {
		return to.Add(e, nil)
	}
	in, err := from.Open(e.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	return to.Add(e, in)
}

// Clear deletes what earlier attempts left in the lineage of a record that has no image yet.
func (s *Store) Clear(ctx context.Context, r schemas.SessionRecord) error {
	if r.Head != nil {
		return fmt.Errorf("clear the lineage of %s: it has an image", r.Name())
	}
	return s.DeleteAll(ctx, r)
}
