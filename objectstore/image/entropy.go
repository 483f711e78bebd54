package image

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/huff0"
)

// entropyCoder compresses pages without looking for repeats: blocks of pages that
// resemble each other are Huffman-coded, or kept as they are where that doesn't
// help. It makes ordinary zstd frames, several times as fast as a search for
// repeats is where there are only short ones. Each kind of page has one table in a
// frame, made from samples of all its pages there: pages of several kinds take
// turns in memory, and a table for every few of them would take longer to make
// than to use. It is for one goroutine.
type entropyCoder struct {
	kinds  []pageKind // of the frame's pages
	tables [noise]kindTable
	last   pageKind // whose table the frame's decoder has; noise for none
}

// kindTable is the code of one kind of page.
type kindTable struct {
	huffman huff0.Scratch
	count   [256]uint32
	pages   int
	written []byte // the table as it stands in front of the first block; nil if there is none
}

// maxBlock is the most that a zstd block may hold, in bytes.
const maxBlock = 128 << 10

// Kinds of blocks, as zstd numbers them.
const (
	blockRaw        = 0
	blockRepeated   = 1 // one byte, again and again
	blockCompressed = 2
)

// encode appends one zstd frame that holds the pages of raw.
func (c *entropyCoder) encode(raw, out []byte) []byte {
	c.learn(raw)
	// Magic number; a single segment, its size in four bytes, no checksum.
	out = append(out, 0x28, 0xb5, 0x2f, 0xfd, 0xa0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(raw)))
	c.last = noise
	for kinds := c.kinds; len(kinds) > 0; {
		n := 1
		for n < len(kinds) && kinds[n] == kinds[0] && n*PageSize < maxBlock {
			n++
		}
		out = c.block(out, raw[:n*PageSize], kinds[0], n == len(kinds))
		raw, kinds = raw[n*PageSize:], kinds[n:]
	}
	return out
}

// learn finds the kinds of the pages, and makes the table of each.
func (c *entropyCoder) learn(raw []byte) {
	for k := range c.tables {
		t := &c.tables[k]
		t.pages, t.written = 0, t.written[:0]
		for i := range t.count {
			t.count[i] = 1 // what the samples lack can be coded, too
		}
	}
	c.kinds = c.kinds[:0]
	for ; len(raw) > 0; raw = raw[PageSize:] {
		kind := kindOfPage(raw[:PageSize])
		c.kinds = append(c.kinds, kind)
		if kind != noise {
			c.tables[kind].sample(raw[:PageSize])
		}
	}
	for k := range c.tables {
		t := &c.tables[k]
		t.huffman.Reuse, t.huffman.WantLogLess = huff0.ReusePolicyMust, 5
		if t.pages == 0 || t.huffman.BuildCTable(&t.count) != nil {
			continue // without a table its pages stay as they are
		}
		if table, err := t.huffman.AppendTable(t.written); err == nil {
			t.written = table
		}
	}
}

// Samples for a table: a step that comes to every place within a record, and a
// weight that makes those ones small.
const (
	tableStep   = 61
	tableWeight = 8
)

func (t *kindTable) sample(page []byte) {
	t.pages++
	for i := 0; i < PageSize; i += tableStep {
		t.count[page[i]] += tableWeight
	}
}

func (c *entropyCoder) block(out, raw []byte, kind pageKind, last bool) []byte {
	if kind != noise && len(c.tables[kind].written) > 0 {
		t := &c.tables[kind]
		coded, _, err := huff0.Compress4X(raw, &t.huffman)
		switch {
		case errors.Is(err, huff0.ErrUseRLE):
			return append(blockHeader(out, blockRepeated, len(raw), last), raw[0])
		case err == nil && kind == c.last:
			return appendLiterals(out, lastTable, nil, coded, len(raw), last)
		case err == nil && len(t.written)+len(coded) < len(raw):
			c.last = kind
			return appendLiterals(out, ownTable, t.written, coded, len(raw), last)
		}
	}
	return append(blockHeader(out, blockRaw, len(raw), last), raw...)
}

func blockHeader(out []byte, kind, size int, last bool) []byte {
	h := uint32(size)<<3 | uint32(kind)<<1
	if last {
		h |= 1
	}
	return append(out, byte(h), byte(h>>8), byte(h>>16))
}

// Where the table of a block's literals is, as zstd numbers it.
const (
	ownTable  = 2
	lastTable = 3 // that of the last block that had one
)

// appendLiterals appends a compressed block of literals and no sequences: sizes of
// 18 bits each, the table, four Huffman streams, and a zero.
func appendLiterals(out []byte, which uint64, table, coded []byte, size int, last bool) []byte {
	const header, fourStreams = 5, 3 << 2
	stored := len(table) + len(coded)
	out = blockHeader(out, blockCompressed, header+stored+1, last)
	h := which | fourStreams | uint64(size)<<4 | uint64(stored)<<22
	out = append(out, byte(h), byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32))
	return append(append(append(out, table...), coded...), 0)
}

// pageKind tells apart pages whose bytes are distributed otherwise.
type pageKind uint8

const (
	binaryPage pageKind = iota
	textPage
	noise // nothing to gain: random, encrypted or compressed already
)

// Sampling: an odd step comes to every place within a record.
const (
	samples    = 128
	sampleStep = PageSize/samples - 1
	// noiseValues of 128 random bytes are distinct in all but one of ten thousand
	// pages: 101 are to be expected.
	noiseValues = 86
)

// kindOfPage guesses by a few bytes. A wrong guess costs room, nothing else.
func kindOfPage(page []byte) pageKind {
	var seen [4]uint64
	distinct, printable := 0, 0
	for i := range samples {
		b := page[i*sampleStep]
		bit := uint64(1) << (b & 63)
		if seen[b>>6]&bit == 0 {
			seen[b>>6] |= bit
			distinct++
		}
		if b >= ' ' && b < 0x7f {
			printable++
		}
	}
	switch {
	case distinct >= noiseValues:
		return noise
	case printable >= samples*7/8:
		return textPage
	}
	return binaryPage
}
