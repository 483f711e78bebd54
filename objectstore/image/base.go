package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/diapause/diapause/schemas"
)

// Base holds the pages of one snapshot for the next one to match against: where
// each of them is stored, by id. It takes about 40 bytes of memory a page, 20 MB for
// 2 GB. It holds the lineage's hash key, which is secret, and no page.
type Base struct {
	head  Head
	place lineage
	key   LineageKey
	hash  hashKey
	packs []basePack
	total uint32            // pages of all packs: the first free number
	ids   map[pageID]uint32 // page numbers, counted through all packs
}

// basePack is a pack of an earlier snapshot. Its pages have the numbers from
// first on.
type basePack struct {
	schemas.ImagePack
	index indexPack
	first uint32
}

// Budgets that keep a lineage's snapshots readable and its garbage small.
const (
	// minLive is the part of a pack, one in minLive, that must be live for its
	// pages to be matched; pages of others are written anew, so that the pack
	// falls out of the lineage.
	minLive = 4
	// maxFanOut is the number of packs from which on a full image is written.
	maxFanOut = 256
)

// Head is the snapshot whose pages these are.
func (b *Base) Head() Head { return b.head }

// newBase picks the packs of a snapshot that are worth matching against. The
// result has no ids yet; renumber gives a page's number in it.
func newBase(head Head, place lineage, h schemas.ImageHeader, x *index) *Base {
	b := &Base{head: head, place: place, key: LineageKey{h.KID, h.Recipient}, ids: map[pageID]uint32{}}
	if len(x.packs) > maxFanOut {
		return b
	}
	for i, live := range x.live() {
		if p := h.Packs[i]; live*minLive >= p.Pages && int64(b.total)+p.Pages <= maxNumber {
			b.packs = append(b.packs, basePack{p, x.packs[i], b.total})
			b.total += uint32(p.Pages)
		}
	}
	return b
}

// live counts the distinct pages of each pack that the index refers to.
func (x *index) live() []int64 {
	sets := make([]bitset, len(x.packs))
	for i, p := range x.packs {
		sets[i] = newBitset(p.pages())
	}
	for _, runs := range x.runs {
		for _, r := range runs {
			if r[0] != zeroPack {
				sets[r[0]].add(r[1], r[2])
			}
		}
	}
	counts := make([]int64, len(sets))
	for i, s := range sets {
		counts[i] = s.count()
	}
	return counts
}

func (p indexPack) pages() (n int64) {
	for _, f := range p.Frames {
		n += f[1]
	}
	return n
}

type bitset []uint64

func newBitset(n int64) bitset { return make(bitset, (n+63)/64) }

func (s bitset) add(from, count int64) {
	for i := from; i < from+count; i++ {
		s[i/64] |= 1 << (i % 64)
	}
}

func (s bitset) count() (n int64) {
	for _, word := range s {
		n += int64(bits.OnesCount64(word))
	}
	return n
}

// LoadBase reads the page ids of a snapshot from the store. What it takes is
// about 16 bytes a page; the pages themselves stay where they are.
func LoadBase(ctx context.Context, r *Reader) (*Base, error) {
	b := newBase(r.head, r.place, r.header, r.index)
	for i, p := range b.packs {
		if err := b.load(ctx, r, p, i == 0); err != nil {
			return nil, fmt.Errorf("load page ids of %s: %w", r.head.Name, err)
		}
	}
	return b, nil
}

func (b *Base) load(ctx context.Context, r *Reader, p basePack, first bool) error {
	data, err := fetchObject(ctx, r.store, r.place.ids(p.Name), 0, p.IDs)
	if err != nil {
		return err
	}
	id, err := r.identity(p.KID)
	if err != nil {
		return err
	}
	plain, err := decrypt(data, id)
	if err != nil {
		return fmt.Errorf("%s: %w", r.place.ids(p.Name), err)
	}
	key, ids, err := parseIDs(plain, p.Pages)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, r.place.ids(p.Name), err)
	}
	if first {
		b.hash = key
	}
	if key != b.hash {
		return fmt.Errorf("%w: %s: its ids are keyed otherwise than those of the pack before", ErrCorrupt, r.place.ids(p.Name))
	}
	for i := range uint32(p.Pages) {
		b.ids[pageID(ids[int(i)*len(pageID{}):])] = p.first + i
	}
	return nil
}

func parseIDs(plain []byte, pages int64) (hashKey, []byte, error) {
	line, ids, _ := bytes.Cut(plain, []byte{'\n'})
	var head idsHead
	if err := json.Unmarshal(line, &head); err != nil {
		return hashKey{}, nil, fmt.Errorf("first line: %w", err)
	}
	if head.IDs != 1 || len(head.Key) != len(hashKey{}) || head.Pages != pages || int64(len(ids)) != pages*int64(len(pageID{})) {
		return hashKey{}, nil, fmt.Errorf("version %d, %d ids in %d bytes: want version 1 and %d", head.IDs, head.Pages, len(ids), pages)
	}
	return hashKey(head.Key), ids, nil
}
