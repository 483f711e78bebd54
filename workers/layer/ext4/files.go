package ext4

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// The places of an inode's fields, beside those of orphans, and what they may hold.
const (
	inodeMode        = 0x00
	inodeRead        = 0x08 // when
	inodeChanged     = 0x0C // when
	inodeFlags       = 0x20
	inodeExtents     = 0x28
	inodeChangedFine = 0x84 // more of it: two bits of the seconds, and nanoseconds
	inodeReadMore    = 0x8C

	modeType    = 0xF000
	modeRegular = 0x8000
	hasExtents  = 0x80000
	isAttribute = 0x200000 // the value of an attribute: its times are something else
	isInline    = 0x10000000

	extentMagic = 0xF30A
	extentSize  = 12 // of a header, too
	rootExtents = 60 // bytes of them in an inode
	mostWritten = 1 << 15
	deepest     = 5
)

// run is a stretch of a regular file's blocks.
type run struct {
	first, end int64
	within     int64 // which block of the file the first one is
	file       uint32
	inode      [sha256.Size]byte // a digest of it
	recent     bool              // the file was changed so lately that its inode proves nothing
}

// files are the blocks of regular files, in their order.
type files struct {
	runs []run
	next int
}

// at tells whose a block is, and how far that goes, up to end. It is nil for a block that is of no
// regular file. The blocks asked for ascend.
func (f *files) at(block, end int64) (owner *run, to int64) {
	for f.next < len(f.runs) && f.runs[f.next].end <= block {
		f.next++
	}
	if f.next == len(f.runs) || f.runs[f.next].first >= end {
		return nil, end
	}
	r := &f.runs[f.next]
	if r.first > block {
		return nil, r.first
	}
	return r, min(r.end, end)
}

// files finds the blocks of regular files. What it doesn't understand is of none: then its content
// counts. since is how long ago a file may have been changed to prove nothing.
func (s *Snapshot) files(since time.Time) (files, error) {
	var all []run
	block := make([]byte, BlockSize)
	for i, g := range s.groups {
		for t := range int64(tableBlocks) {
			used := g.inUse(t)
			if used == 0 {
				continue
			}
			if _, err := s.f.ReadAt(block, (g.table+t)*BlockSize); err != nil {
				return files{}, fmt.Errorf("read the inodes of group %d: %w", i, err)
			}
			for ; used != 0; used &= used - 1 {
				n := bits.TrailingZeros16(used)
				number := uint32(i*groupInodes) + uint32(t*blockInodes) + uint32(n) + 1
				if number >= firstInode {
					all = append(all, s.runsOf(number, block[n*inodeSize:][:inodeSize], since)...)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b run) int { return int(min(max(a.first-b.first, -1), 1)) })
	return files{runs: alone(all)}, nil
}

// alone leaves out what more than one file says it has.
func alone(runs []run) []run {
	shared := make([]bool, len(runs))
	furthest := 0
	for i := 1; i < len(runs); i++ {
		if runs[i].first < runs[furthest].end {
			shared[i], shared[furthest] = true, true
		}
		if runs[i].end > runs[furthest].end {
			furthest = i
		}
	}
	kept := runs[:0]
	for i, r := range runs {
		if !shared[i] {
			kept = append(kept, r)
		}
	}
	return kept
}

// runsOf gives the blocks of a file, none if it isn't a regular one with extents.
func (s *Snapshot) runsOf(number uint32, inode []byte, since time.Time) []run {
	flags := le.Uint32(inode[inodeFlags:])
	if le.Uint16(inode[inodeMode:])&modeType != modeRegular || flags&hasExtents == 0 || flags&(isAttribute|isInline) != 0 {
		return nil
	}
	own := run{file: number, inode: lasting(inode), recent: !changed(inode).Before(since)}
	runs, ok := s.extents(nil, inode[inodeExtents:][:rootExtents], own, deepest)
	if !ok {
		return nil
	}
	return runs
}

// lasting is a digest of an inode without the time of the last read.
func lasting(inode []byte) [sha256.Size]byte {
	var b [inodeSize]byte
	copy(b[:], inode)
	clear(b[inodeRead:][:4])
	clear(b[inodeReadMore:][:4])
	return sha256.Sum256(b[:])
}

// changed is when an inode was changed last.
func changed(inode []byte) time.Time {
	more := le.Uint32(inode[inodeChangedFine:])
	seconds := int64(int32(le.Uint32(inode[inodeChanged:]))) + int64(more&3)<<32
	return time.Unix(seconds, int64(more>>2))
}

// extents adds the stretches of a node of a file's tree of extents. ok is false if it isn't one.
func (s *Snapshot) extents(runs []run, node []byte, own run, depth int) (all []run, ok bool) {
	entries, level := int(le.Uint16(node[2:])), int(le.Uint16(node[6:]))
	if le.Uint16(node) != extentMagic || level >= depth || (entries+1)*extentSize > len(node) {
		return nil, false
	}
	for e := range entries {
		x := node[(e+1)*extentSize:][:extentSize]
		if level > 0 {
			block := int64(le.Uint16(x[8:]))<<32 | int64(le.Uint32(x[4:]))
			below := make([]byte, BlockSize)
			if _, err := s.f.ReadAt(below, block*BlockSize); err != nil {
				return nil, false
			}
			if runs, ok = s.extents(runs, below, own, level); !ok {
				return nil, false
			}
			continue
		}
		r, n := own, int64(le.Uint16(x[4:]))
		if n > mostWritten { // allocated, and not written to
			n -= mostWritten
		}
		r.within = int64(le.Uint32(x))
		r.first = int64(le.Uint16(x[6:]))<<32 | int64(le.Uint32(x[8:]))
		r.end = r.first + n
		if n == 0 || r.end > s.size/BlockSize {
			return nil, false
		}
		runs = append(runs, r)
	}
	return runs, true
}
