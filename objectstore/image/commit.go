package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Commit makes the image durable and returns its head. It stores the packs first, then
// the lineage key if it is new, and the header with the index last, so that an object
// exists before it is named. The image counts as committed when the caller has recorded
// the head.
//
// After an error the caller aborts. ErrExists means that another snapshot has the
// name; ErrFull that the store has no room. After other errors of the store the
// image may have become durable, and Abort leaves it alone.
func (w *Writer) Commit(ctx context.Context) (Head, schemas.ImageHeader, Stats, error) {
	if w.err == nil && w.done {
		w.err = errors.New("the image is committed or aborted already")
	}
	if w.err == nil {
		w.err = w.commit(ctx)
	}
	if w.err != nil {
		return Head{}, schemas.ImageHeader{}, w.stats, fmt.Errorf("commit image %s: %w", w.name(), w.err)
	}
	w.done = true
	w.cancel()
	return w.head, w.header, w.stats, nil
}

func (w *Writer) name() string { return w.place.snap(w.opts.Epoch, w.opts.Seq) }

func (w *Writer) commit(ctx context.Context) error {
	if err := checkTree(w.entries); err != nil {
		return err
	}
	w.flush()
	written, err := w.packer.finish()
	if err != nil {
		return err
	}
	w.spare = nil
	w.packer.release()
	if err := w.step(ctx, StepPacks); err != nil {
		return err
	}
	packs := w.resolve(written)
	if err := w.checkBase(ctx, packs); err != nil {
		return err
	}
	if err := w.putKey(ctx); err != nil {
		return err
	}
	if err := w.step(ctx, StepKey); err != nil {
		return err
	}
	if err := w.putHeader(ctx, packs); err != nil {
		return err
	}
	if err := w.step(ctx, StepHeader); err != nil {
		w.uncertain = true
		return err
	}
	w.stats.StoredBytes = w.header.StoredBytes
	w.stats.Compress = time.Duration(w.packer.compress.Load())
	w.stats.Encrypt = time.Duration(w.packer.encrypt.Load())
	w.stats.Store = time.Duration(w.packer.storing.Load())
	w.stats.Total = time.Since(w.begin)
	return nil
}

func (w *Writer) step(ctx context.Context, s Step) error {
	if w.opts.Step == nil {
		return nil
	}
	return w.opts.Step(ctx, s)
}

// resolve turns page numbers into places in packs, and returns the packs in use.
func (w *Writer) resolve(written []*packOut) []basePack {
	var all []basePack
	next := uint32(0)
	if w.base != nil {
		all, next = append(all, w.base.packs...), w.base.total
	}
	for _, p := range written {
		all = append(all, basePack{ImagePack: p.ImagePack, index: p.index, first: next})
		next += uint32(p.Pages)
	}
	used := usedPacks(all, w.content)
	place := make([]int64, len(all)) // of each pack in the index
	var packs []basePack
	w.result = &index{entries: w.entries}
	for i, p := range all {
		if used[i] {
			place[i] = int64(len(packs))
			packs = append(packs, p)
			w.result.packs = append(w.result.packs, p.index)
		}
	}
	for _, x := range w.content {
		var runs []run
		x.split(all, func(pack int, page, count int64) {
			if pack != zeroPack {
				pack = int(place[pack])
			}
			runs = append(runs, run{int64(pack), page, count})
		})
		w.result.runs = append(w.result.runs, runs)
	}
	return packs
}

func usedPacks(all []basePack, content []extents) []bool {
	used := make([]bool, len(all))
	for _, x := range content {
		x.split(all, func(pack int, _, _ int64) {
			if pack != zeroPack {
				used[pack] = true
			}
		})
	}
	return used
}

// split calls fn for each stretch of the content that lies within one pack, or is
// zero.
func (x extents) split(packs []basePack, fn func(pack int, page, count int64)) {
	for _, e := range x {
		start, left := e.start, int64(e.count)
		if start == zeros {
			fn(zeroPack, 0, left)
			continue
		}
		for left > 0 {
			i := packOf(packs, start)
			page := int64(start - packs[i].first)
			n := min(left, packs[i].Pages-page)
			fn(i, page, n)
			start, left = start+uint32(n), left-n
		}
	}
}

// packOf finds the pack that holds the page of a number.
func packOf(packs []basePack, number uint32) int {
	return sort.Search(len(packs), func(i int) bool { return packs[i].first > number }) - 1
}

// checkBase looks once more for the packs of the parent that the image now refers
// to: a collection may have passed since Create.
func (w *Writer) checkBase(ctx context.Context, packs []basePack) error {
	if w.base == nil {
		return nil
	}
	name, err := w.missing(ctx, packs)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: %s", ErrBaseGone, name)
	}
	return err
}

func (w *Writer) putKey(ctx context.Context) error {
	for _, k := range w.wraps {
		name := w.place.keys() + k.name
		w.packer.names = append(w.packer.names, name)
		if err := w.store.Put(ctx, name, bytes.NewReader(k.data), int64(len(k.data))); err != nil {
			return fmt.Errorf("store the lineage key: %w", err)
		}
		w.packer.stored.Add(int64(len(k.data)))
	}
	return nil
}

func (w *Writer) putHeader(ctx context.Context, packs []basePack) error {
	recipient, err := w.key.recipient()
	if err != nil {
		return err
	}
	sealed, err := w.result.seal(recipient)
	if err != nil {
		return err
	}
	clear, err := w.sign(packs, objectOf(sealed))
	if err != nil {
		return err
	}
	object := append(clear, sealed...)
	err = w.store.Put(ctx, w.head.Name, bytes.NewReader(object), int64(len(object)))
	if err == nil {
		return nil
	}
	return w.settle(ctx, object, err)
}

// sign fills in the header, and the head with its digest. StoredBytes counts the
// header itself, so its length must not depend on the number: a signature is as
// long as another, the digits are found by trying.
func (w *Writer) sign(packs []basePack, sealed schemas.ImageObject) ([]byte, error) {
	o := w.opts
	w.header = schemas.ImageHeader{
		Version: schemas.ImageVersion,
		Tenant:  o.Tenant, Session: o.Session, UID: o.UID, Lineage: o.Lineage, Epoch: o.Epoch, Seq: o.Seq, Parent: o.Parent,
		Signer: o.SignerName, Op: o.Op, Trigger: o.Trigger, RunID: o.RunID, Description: o.Description, Time: o.Time,
		Fingerprint: o.Fingerprint, KID: w.key.KID, Recipient: w.key.Recipient, KeyGeneration: max(o.KeyGeneration, w.parent.generation), Index: sealed, Packs: []schemas.ImagePack{},
		Entries: int64(len(w.entries)), LogicalBytes: w.stats.LogicalBytes, NewBytes: w.stats.NewBytes,
	}
	for _, p := range packs {
		w.header.Packs = append(w.header.Packs, p.ImagePack)
	}
	rest := w.packer.stored.Load() + sealed.Size
	for {
		clear, digest, err := signHeader(w.header, w.opts.Signer)
		if err != nil {
			return nil, err
		}
		total := rest + int64(len(clear))
		if w.header.StoredBytes == total {
			w.head = Head{Name: w.name(), Digest: digest}
			return clear, nil
		}
		w.header.StoredBytes = total
	}
}

// settle finds out what came of a header that the store did not take: it may
// have, and the answer was lost.
func (w *Writer) settle(ctx context.Context, object []byte, putErr error) error {
	putErr = fmt.Errorf("store the header: %w", putErr)
	if errors.Is(putErr, ErrFull) {
		return putErr
	}
	got, err := getAll(ctx, w.store, w.head.Name, int64(len(object)))
	if err == nil && bytes.Equal(got, object) {
		return nil
	}
	w.uncertain = !errors.Is(putErr, ErrExists)
	return putErr
}

// Base returns the pages of the image, once it is committed, for the next image
// of the lineage to match against.
func (w *Writer) Base() *Base {
	if w.result == nil || !w.done || w.err != nil {
		return nil
	}
	b := newBase(w.head, w.place, w.header, w.result)
	b.hash = w.hash
	b.keepStamps(w)
	if w.base == nil && b.total == uint32(w.known.count) {
		b.ids = w.known // which neither of them changes any more
		return b
	}
	type part struct {
		ids   *pageTable
		first uint32
	}
	of := map[string]part{} // by pack
	if w.base != nil {
		for _, p := range w.base.packs {
			of[p.Name] = part{&w.base.ids, p.first}
		}
	}
	first := uint32(0)
	for _, p := range w.packer.packs {
		of[p.Name] = part{&w.known, first}
		first += uint32(p.Pages)
	}
	for _, p := range b.packs {
		from := of[p.Name]
		for i := range uint32(p.Pages) {
			b.ids.add(from.ids.at(from.first + i))
		}
	}
	return b
}
