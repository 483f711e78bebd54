package index

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
)

// filter says of a stretch of blocks which odd words it can't have. Blocks have these by so few bits of their hashes that, among many
// sessions, thousands seem to have a word that none has. It is a Bloom filter: a word that isn't there seems to be in one of a thousand.
type filter struct {
	first int // block; the stretch ends with the next filter's, or is pending
	bits  []byte
}

// A filter is of so much output, has so many bits for each word, and takes at most this part of the output; a smaller part of less output in a small
// index, where words take more of it. With less than filterLeast bits for each it would let much through: then it lets all through, and takes nothing.
// Only filterKeys has to stay: filters with fewer bits, as were stored before, are read as they are.
const (
	filterEach  = 512 << 10
	filterBits  = 15
	filterLeast = 6
	filterKeys  = 7
	filterPart  = 25
	filterSmall = 90
)

// filtering is what the next filter is made of.
type filtering struct {
	first int   // block
	from  int64 // position in the output
	words map[uint64]struct{}
}

// oddHash is a word's in filters.
func oddHash(word string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(word))
	sum := h.Sum64()
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}

// eachBit calls fn with the bits of a word in a filter of n bits.
func eachBit(hash uint64, n int, fn func(at int)) {
	a, b := uint32(hash), uint32(hash>>32)|1
	for range filterKeys {
		fn(int(uint64(a) * uint64(n) >> 32))
		a += b
	}
}

func (f filter) has(hash uint64) bool {
	found := true
	eachBit(hash, len(f.bits)*8, func(at int) { found = found && f.bits[at/8]&(1<<(at%8)) != 0 })
	return found
}

// odd takes the odd words of the next block.
func (x *Index) odd(words map[string]struct{}, b Block) {
	p := &x.pending
	if p.words == nil {
		*p = filtering{len(x.blocks), b.From, map[uint64]struct{}{}}
	}
	for word := range words {
		p.words[oddHash(word)] = struct{}{}
	}
	if b.To-p.from >= filterEach {
		x.filter(b.To)
	}
}

// filter makes the filter of the blocks that came since the last one, which end at a position in the output.
func (x *Index) filter(to int64) {
	p := &x.pending
	if p.words == nil {
		return
	}
	part := int64(filterPart)
	if to-p.from < filterEach && x.read < small {
		part = filterSmall
	}
	size := min(len(p.words)*filterBits/8, int((to-p.from)/part)) + 8
	f := filter{p.first, make([]byte, size)}
	if size*8 < len(p.words)*filterLeast {
		f.bits, p.words = []byte{0xff}, nil
	}
	for hash := range p.words {
		eachBit(hash, size*8, func(at int) { f.bits[at/8] |= 1 << (at % 8) })
	}
	x.filters, *p = append(x.filters, f), filtering{}
}

// sift gives which blocks can't have the odd words of a query, as a function; none says that this is all of them.
func (x *Index) sift(q *Query) (without func(block int) bool, none bool) {
	var hashes []uint64
	for _, w := range q.words {
		eachWord(w, func(word string, odd bool) {
			if odd {
				hashes = append(hashes, oddHash(word))
			}
		})
	}
	if len(hashes) == 0 || len(x.filters) == 0 {
		return func(int) bool { return false }, false
	}
	lacks := make([]bool, len(x.filters))
	for i, f := range x.filters {
		lacks[i] = slices.ContainsFunc(hashes, func(h uint64) bool { return !f.has(h) })
	}
	pending := len(x.blocks)
	if x.pending.words != nil {
		pending = x.pending.first
	}
	none = !slices.Contains(lacks, false) && pending == len(x.blocks) && x.filters[0].first == 0
	return func(block int) bool {
		i, found := slices.BinarySearchFunc(x.filters, block, func(f filter, at int) int { return f.first - at })
		if !found {
			i--
		}
		return i >= 0 && block < pending && lacks[i]
	}, none
}

func encodeFilters(all []filter) (out []byte) {
	for _, f := range all {
		out = binary.AppendUvarint(out, uint64(f.first))
		out = binary.AppendUvarint(out, uint64(len(f.bits)))
		out = append(out, f.bits...)
	}
	return out
}

var errFilters = errors.New("the filters can't be read")

func decodeFilters(b []byte) (all []filter, err error) {
	for len(b) > 0 {
		first, n := binary.Uvarint(b)
		size, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || size == 0 || size > uint64(len(b)-n-m) || first > 1<<40 || len(all) > 0 && int(first) <= all[len(all)-1].first {
			return nil, errFilters
		}
		b = b[n+m:]
		all, b = append(all, filter{int(first), slices.Clone(b[:size])}), b[size:]
	}
	return all, nil
}
