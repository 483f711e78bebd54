package image

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/huff0"
)

// entropyCoder compresses pages without looking for repeats: blocks of pages that
// resemble each other are Huffman-coded, or kept as they are where that doesn't
// help. It makes ordinary zstd frames, several times as fast as a search for
// repeats is where there are only short ones. It is for one goroutine.
type entropyCoder struct{ huffman huff0.Scratch }

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
	// Magic number; a single segment, its size in four bytes, no checksum.
	out = append(out, 0x28, 0xb5, 0x2f, 0xfd, 0xa0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(raw)))
	kind := kindOfPage(raw[:PageSize])
	for len(raw) > 0 {
		size, next := PageSize, kind
		for ; size < len(raw); size += PageSize {
			if next = kindOfPage(raw[size : size+PageSize]); next != kind || size == maxBlock {
				break
			}
		}
		out = c.block(out, raw[:size], kind, size == len(raw))
		raw, kind = raw[size:], next
	}
	return out
}

func (c *entropyCoder) block(out, raw []byte, kind pageKind, last bool) []byte {
	if kind != noise {
		c.huffman.Reuse, c.huffman.WantLogLess = huff0.ReusePolicyNone, 5
		coded, _, err := huff0.Compress4X(raw, &c.huffman)
		switch {
		case errors.Is(err, huff0.ErrUseRLE):
			return append(blockHeader(out, blockRepeated, len(raw), last), raw[0])
		case err == nil:
			return appendLiterals(out, coded, len(raw), last)
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

// appendLiterals appends a compressed block of literals and no sequences: sizes of
// 18 bits each, four Huffman streams with their table, and a zero.
func appendLiterals(out, coded []byte, size int, last bool) []byte {
	const header, ownTable, fourStreams = 5, 2, 3 << 2
	out = blockHeader(out, blockCompressed, header+len(coded)+1, last)
	h := uint64(ownTable|fourStreams) | uint64(size)<<4 | uint64(len(coded))<<22
	out = append(out, byte(h), byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32))
	return append(append(out, coded...), 0)
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
