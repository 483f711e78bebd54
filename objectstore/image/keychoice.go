package image

import (
	"context"
	"errors"
)

// parentKey is what the parent's header says of the lineage key that it was
// written with; the zero value stands for a parent that there isn't.
type parentKey struct {
	key        LineageKey
	generation uint64
}

// rotates reports whether the image needs another key than its parent has: one of
// the parent's readers was removed since, or a new key was requested.
func (o WriteOptions) rotates(p parentKey) bool { return p.generation < o.KeyGeneration }

// mustBeFull reports whether the image may refer to no earlier pack, so that a
// removed reader can read nothing once the older snapshots are gone.
func (o WriteOptions) mustBeFull(p parentKey) bool { return p.generation < o.FullSince }

// readParent reads the key from the parent's header. The head's digest vouches for
// it. A parent that is gone, damaged or shredded is no reason to lose the session:
// the image gets a new key.
//
// A base has the key of its parent, so with one the header is read only if its
// generation matters.
func (w *Writer) readParent(ctx context.Context) error {
	if w.opts.Parent == nil || w.opts.Key != nil && w.opts.FullSince == 0 {
		return nil
	}
	if w.opts.Base != nil && w.opts.KeyGeneration == 0 && w.opts.FullSince == 0 && w.opts.Base.head == *w.opts.Parent && w.kids[w.opts.Base.key.KID] {
		w.parent.key = w.opts.Base.key
		return nil
	}
	if l, err := lineageOf(w.opts.Parent.Name); err != nil || l != w.place {
		return err
	}
	s, err := fetchHeader(ctx, w.store, w.opts.Parent.Name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || err == nil && s.digest() != w.opts.Parent.Digest {
		return nil
	}
	if err != nil {
		return err
	}
	h := s.header
	w.parent = parentKey{LineageKey{KID: h.KID, Recipient: h.Recipient}, h.KeyGeneration}
	return nil
}
