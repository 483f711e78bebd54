package image

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Writer writes one image. Its methods are for one goroutine.
//
// It holds at most about 55 MiB of content on two cores, for images of any size
// (three packs of 13 MiB, 2 MiB for each of 2·cores+1 frames, and cores+2 chunks of
// a MiB), and 21 to 27 bytes for each distinct page that is not zero. A process that
// wrote 4 GB of new pages had 146 MB at most. Only ciphertext leaves the process.
type Writer struct {
	ctx    context.Context
	cancel context.CancelFunc
	store  objectstore.Store
	opts   WriteOptions
	place  lineage
	begin  time.Time

	parent parentKey
	key    LineageKey
	kids   map[string]bool // lineage keys that are in the store
	wraps  []wrap          // the key's objects, still to be stored if it is new
	hash   hashKey
	hasher hasher
	base   *Base
	packer *packer

	pending []*chunk  // being hashed, in the order of the content
	spare   []*chunk  // not in use
	frame   *frameJob // being filled
	known   pageTable // the new pages, numbered from the end of the base's on
	next    uint32    // number of the next new page
	entries []Entry
	content []extents        // of each entry
	stamps  map[int]string   // of entries whose content has one
	ahead   map[string]ahead // content by stamp that has no entry yet
	stats   Stats
	taken   atomic.Int64 // bytes that were read

	err       error // the first failure; the writer is of no more use
	done      bool  // committed, or aborted
	uncertain bool  // the header may be in the store: keep what it names
	result    *index
	head      Head
	header    schemas.ImageHeader
}

// Taken says how many bytes of content the writer has read so far. It may be called at any
// time, by anyone.
func (w *Writer) Taken() int64 { return w.taken.Load() }

// Create begins an image. ctx governs all that is stored until Commit. The caller
// calls Commit or Abort in the end.
//
// Without a Key, a Base or a Parent of the same lineage the image gets a lineage
// key of its own; no secret is needed in any case. A Base that isn't of the
// Parent, or whose packs are not all there any more, is left aside and the image
// is written in full: Stats.Full tells.
func Create(ctx context.Context, store objectstore.Store, o WriteOptions) (*Writer, error) {
	if o.Time.IsZero() {
		o.Time = time.Now()
	}
	o.Time = o.Time.UTC().Round(0)
	if o.cuts == (cuts{}) {
		o.cuts = usual
	}
	place, err := newLineage(o.Tenant, o.Lineage)
	if err != nil {
		return nil, fmt.Errorf("create image: %w", err)
	}
	w := &Writer{store: store, opts: o, place: place, begin: time.Now()}
	if err := w.prepare(ctx); err != nil {
		return nil, fmt.Errorf("create image %s: %w", place.snap(o.Epoch, o.Seq), err)
	}
	return w, nil
}

func (w *Writer) prepare(ctx context.Context) error {
	if len(w.opts.Signer) != ed25519.PrivateKeySize {
		return errors.New("no key to sign with")
	}
	o := w.opts
	if err := checkTokens(o.Session, o.UID, o.SignerName); err != nil {
		return err
	}
	if n := len(o.Trigger) + len(o.RunID) + len(o.Description) + len(o.Op); n > maxText {
		return fmt.Errorf("trigger, run id, description and op have %d bytes, more than %d", n, maxText)
	}
	if err := w.listKeys(ctx); err != nil {
		return err
	}
	if err := w.readParent(ctx); err != nil {
		return err
	}
	if err := w.chooseBase(ctx); err != nil {
		return err
	}
	if err := w.chooseKey(ctx); err != nil {
		return err
	}
	recipient, err := w.key.recipient()
	if err != nil {
		return err
	}
	w.hash = newHashKey()
	if w.base != nil {
		w.hash, w.next = w.base.hash, w.base.total
	}
	w.hasher, w.stats.Full = newHasher(w.hash), w.base == nil
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.packer, err = newPacker(w.ctx, w.store, w.place, w.key.KID, recipient, w.hash, w.opts.cuts, w.opts.Dense || w.base != nil)
	if err != nil {
		w.cancel()
	}
	return err
}

// maxText bounds the caller's own words in a header, in bytes.
const maxText = 64 << 10

// listKeys finds out which lineage keys can still be unwrapped by their readers.
// What is encrypted to any other is lost, so no new image may be.
func (w *Writer) listKeys(ctx context.Context) error {
	names, err := listNames(ctx, w.store, w.place.keys())
	if err != nil {
		return fmt.Errorf("look for lineage keys: %w", err)
	}
	w.kids = map[string]bool{}
	for _, name := range names {
		w.kids[w.place.kidOf(name)] = true
	}
	return nil
}

// chooseBase takes the base if it fits and all of it is still in the store.
func (w *Writer) chooseBase(ctx context.Context) error {
	b, parent := w.opts.Base, w.opts.Parent
	if b == nil || parent == nil || b.head != *parent || b.place != w.place || b.exceeds(w.opts.Budget) || !w.kids[b.key.KID] || w.opts.mustBeFull(w.parent) {
		return nil
	}
	for _, p := range b.packs {
		if !w.kids[p.KID] {
			return nil
		}
	}
	missing, err := w.missing(ctx, b.packs)
	if err != nil || missing != "" {
		return err
	}
	w.base = b
	return nil
}

// missing names a pack that is not in the store as it should be, or is going to be
// deleted, if there is one.
func (w *Writer) missing(ctx context.Context, packs []basePack) (string, error) {
	sizes := map[string]int64{}
	err := w.store.List(ctx, w.place.packs(), func(i objectstore.Info) error {
		sizes[i.Name] = i.Size
		return nil
	})
	if err == nil {
		// What is marked is going to be deleted, unless a header that is there by
		// then names it.
		err = w.store.List(ctx, w.place.mark(w.place.packs()), func(i objectstore.Info) error {
			delete(sizes, w.place.marked(i.Name))
			return nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("look for the packs of the parent: %w", err)
	}
	for _, p := range packs {
		if sizes[w.place.pack(p.Name)] != p.Size || sizes[w.place.ids(p.Name)] != p.IDs.Size {
			return w.place.pack(p.Name), nil
		}
	}
	return "", nil
}

func (w *Writer) chooseKey(ctx context.Context) (err error) {
	switch {
	case w.opts.Key != nil:
		w.key = *w.opts.Key
		if !w.kids[w.key.KID] {
			return fmt.Errorf("%w: %s isn't in the store", ErrNoKey, w.place.key(w.key.KID))
		}
		return nil
	case w.base != nil && !w.opts.rotates(w.parent):
		w.key = w.base.key
		return nil
	}
	if w.parent.key.KID != "" && w.kids[w.parent.key.KID] && !w.opts.rotates(w.parent) {
		w.key = w.parent.key
		return nil
	}
	readers, err := newWrapSet(w.opts.KeyVersion, w.opts.Recipients)
	if err != nil {
		return err
	}
	w.key, w.wraps, err = newKey(readers)
	return err
}

// Add appends an entry and, for a file, its content. Size is the content's exact
// length in bytes, or -1 for what r gives until its end; for entries other than
// files r is nil. After an error the image can only be aborted.
func (w *Writer) Add(e Entry, r io.Reader) error {
	if w.err == nil && w.done {
		return errors.New("add to an image that is committed or aborted")
	}
	if w.err == nil {
		w.err = w.add(e, r)
	}
	return w.err
}

func (w *Writer) add(e Entry, r io.Reader) error {
	if err := e.check(); err != nil {
		return fmt.Errorf("add entry: %w", err)
	}
	var x extents
	if e.Type == TypeFile {
		size, err := w.read(&x, r, e.Size)
		if err != nil {
			return fmt.Errorf("add entry %q: %w", e.Name, err)
		}
		e.Size = size
	}
	w.entries = append(w.entries, e)
	w.content = append(w.content, x)
	w.stats.LogicalBytes += e.Size
	return nil
}

// Abort stops and deletes what this writer has stored, as far as it can. After a
// successful Commit it does nothing, after one of unknown outcome it deletes
// nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.cancel()
	w.packer.finish()
	if w.uncertain {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTime)
	defer cancel()
	for _, name := range w.packer.names {
		w.store.Delete(ctx, name) // what stays is collected later
	}
}

// abortTime is how long Abort tries to delete what it stored.
const abortTime = 30 * time.Second
