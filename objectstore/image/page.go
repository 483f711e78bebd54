package image

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"math"

	"github.com/zeebo/blake3"
)

// PageSize is the unit of matching, in bytes.
const PageSize = 4096

// What a reader accepts.
const (
	maxFrame     = 4096    // pages of a frame
	maxPackPages = 1 << 20 // pages of a pack
	spanSize     = 1 << 20 // bytes of a pack that have a digest of their own
)

// cuts is where a writer ends frames and packs.
type cuts struct {
	frame int   // pages of a full frame
	pages int64 // a pack ends with the frame that reaches this many pages
	bytes int64 // or this many stored bytes
}

// usual are the cuts of all images that are written outside of tests: frames of
// 1 MiB, packs of 12 MiB as stored or 256 MiB of pages. Three packs are in memory
// while an image is written.
var usual = cuts{frame: 256, pages: 1 << 16, bytes: 12 << 20}

// chunkSize is how much content is read at a time, in bytes.
const chunkSize = 1 << 20

// pageID tells pages apart: 16 bytes of BLAKE3, keyed with the lineage's hash key.
// Without the key an id says nothing of its page, not even to one who guesses.
type pageID [16]byte

// hashKey keys the page ids of a lineage. It is stored within encrypted objects only.
type hashKey [32]byte

func newHashKey() hashKey {
	var k hashKey
	rand.Read(k[:])
	return k
}

// hasher computes page ids. It is for one goroutine.
type hasher struct{ h *blake3.Hasher }

func newHasher(key hashKey) hasher {
	h, err := blake3.NewKeyed(key[:])
	if err != nil {
		panic("image: the hash key has 32 bytes: " + err.Error())
	}
	return hasher{h}
}

func (h hasher) id(page []byte) pageID {
	var sum [32]byte
	h.h.Reset()
	h.h.Write(page)
	h.h.Sum(sum[:0])
	return pageID(sum[:16])
}

// spanDigest is what part of a pack is recognised by.
func spanDigest(data []byte) string {
	sum := blake3.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// spansDigest is what a whole pack is recognised by: every byte of it is hashed once,
// for both.
func spansDigest(spans []string) string {
	var lines []byte
	for _, s := range spans {
		lines = append(append(lines, s...), '\n')
	}
	return hexDigest(lines)
}

var zeroPage [PageSize]byte

func isZero(page []byte) bool { return bytes.Equal(page, zeroPage[:len(page)]) }

// pages is the number of pages that size bytes take.
func pages(size int64) int64 { return (size + PageSize - 1) / PageSize }

// extent is a stretch of a file while it is written: pages of one number space
// that goes on from the base's packs to those being made.
type extent struct{ start, count uint32 }

// zeros is the start of an extent of zero pages.
const zeros = math.MaxUint32

// maxNumber bounds the number space: 16 TiB of pages.
const maxNumber = zeros - 1

// extents is the content of one file.
type extents []extent

// add appends count pages from start on, joining them to the last extent if they
// follow it.
func (x *extents) add(start, count uint32) {
	if n := len(*x); n > 0 {
		last := &(*x)[n-1]
		follows := start == last.start+last.count && last.start != zeros
		if (follows || start == zeros && last.start == zeros) && uint64(last.count)+uint64(count) <= math.MaxUint32 {
			last.count += count
			return
		}
	}
	*x = append(*x, extent{start, count})
}
