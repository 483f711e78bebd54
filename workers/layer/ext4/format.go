package ext4

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
)

// Largest is the size of the largest file system that Format makes, in bytes.
const Largest = maxGroups * groupBlocks * BlockSize

// Format makes an empty file system of a size in bytes, which is rounded up to whole
// groups of 128 MiB, in an empty file. It writes few blocks; the rest stays a hole.
func Format(f *os.File, size int64, now time.Time) error {
	groups := int((size + groupBlocks*BlockSize - 1) / (groupBlocks * BlockSize))
	if groups < 1 || groups > maxGroups {
		return fmt.Errorf("make a file system: a size of %d bytes", size)
	}
	l := &layout{groups: groups, now: uint32(now.Unix())}
	rand.Read(l.uuid[:])
	rand.Read(l.seed[:])
	if err := f.Truncate(int64(groups) * groupBlocks * BlockSize); err != nil {
		return fmt.Errorf("make a file system: %w", err)
	}
	for _, part := range []struct {
		block int
		data  []byte
	}{
		{0, append(make([]byte, superOffset), l.super()...)}, {1, l.descs()},
		{l.first(0), l.blockBitmap()}, {l.first(0) + 1, l.inodeBitmap()},
		{l.first(0) + 2, l.inodes()}, {l.root(), l.rootDir()},
	} {
		if _, err := f.WriteAt(part.data, int64(part.block)*BlockSize); err != nil {
			return fmt.Errorf("make a file system: %w", err)
		}
	}
	return nil
}

// layout says where things are in a new file system.
type layout struct {
	groups     int
	now        uint32
	uuid, seed [16]byte
}

func (l *layout) descBlocks() int { return (l.groups*descSize + BlockSize - 1) / BlockSize }

// first is where the bitmaps and the inode table of a group begin.
func (l *layout) first(group int) int {
	if group == 0 {
		return 1 + l.descBlocks()
	}
	return group * groupBlocks
}

// root is the block of the root directory, the last one in use.
func (l *layout) root() int { return l.first(0) + 2 + tableBlocks }

// overhead is what isn't for files, in blocks.
func (l *layout) overhead() int { return 1 + l.descBlocks() + l.groups*(2+tableBlocks) }

func (l *layout) super() super {
	s := make(super, superSize)
	s.put(superInodes, uint32(l.groups*groupInodes))
	s.put(superBlocks, uint32(l.groups*groupBlocks))
	s.put(superFreeBlocks, uint32(l.groups*groupBlocks-l.overhead()-1))
	s.put(superFreeInodes, uint32(l.groups*groupInodes-firstInode+1))
	s.put(superLogBlock, 2)
	s.put(superLogCluster, 2)
	s.put(superGroupBlocks, groupBlocks)
	s.put(superGroupClusts, groupBlocks)
	s.put(superGroupInodes, groupInodes)
	s.put16(superMaxMounts, 0xFFFF)
	s.put16(superMagic, magic)
	s.put16(superState, stateClean)
	s.put16(superErrors, errorsReadOnly)
	s.put(superRevision, 1)
	s.put(superFirstInode, firstInode)
	s.put16(superInodeSize, inodeSize)
	s.put(superCompat, compat)
	s.put(superIncompat, incompat)
	s.put(superROCompat, roCompat)
	copy(s[superUUID:], l.uuid[:])
	copy(s[superHashSeed:], l.seed[:])
	s[superHashVersion] = 1 // half MD4
	s.put16(superMinExtra, inodeSize-128-96)
	s.put16(superWantExtra, inodeSize-128-96)
	s.put(superFlags, 1) // signed hashes
	// All groups are one to the allocator: it fills them from the first on, and so touches
	// few bitmaps and inode tables.
	for 1<<s[superLogFlex] < max(l.groups, 2) {
		s[superLogFlex]++
	}
	s.put(superOverhead, uint32(l.overhead()))
	return s
}

// descs are the descriptors of all groups. Bitmaps and tables of all but the first group are
// made when they are needed.
func (l *layout) descs() []byte {
	all := make([]byte, l.groups*descSize)
	for g := range l.groups {
		d := desc(all[g*descSize:][:descSize])
		first := uint32(l.first(g))
		le.PutUint32(d[0x0:], first)
		le.PutUint32(d[0x4:], first+1)
		le.PutUint32(d[0x8:], first+2)
		used, inodes, flags := 2+tableBlocks, 0, uint16(uninitInodes|uninitBlocks|zeroedInodes)
		if g == 0 {
			used, inodes, flags = l.root()+1, firstInode-1, zeroedInodes
			le.PutUint16(d[0x10:], 1) // directories
		}
		le.PutUint16(d[0xC:], uint16(groupBlocks-used))
		le.PutUint16(d[0xE:], uint16(groupInodes-inodes))
		le.PutUint16(d[0x12:], flags)
		le.PutUint16(d[0x1C:], uint16(groupInodes-inodes)) // never used, at the table's end
		le.PutUint16(d[0x1E:], d.sum(l.uuid[:], uint32(g)))
	}
	return all
}

// filled is a bitmap whose first n bits are set, and those from end on.
func filled(n, end int) []byte {
	b := make([]byte, BlockSize)
	for i := range 8 * BlockSize {
		if i < n || i >= end {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

func (l *layout) blockBitmap() []byte { return filled(l.root()+1, groupBlocks) }
func (l *layout) inodeBitmap() []byte { return filled(firstInode-1, groupInodes) }

// inodes is the first block of the inode table: the root directory's is in use.
func (l *layout) inodes() []byte {
	b := make([]byte, BlockSize)
	i := b[(rootInode-1)*inodeSize:][:inodeSize]
	le.PutUint16(i[0x0:], 0o40755)
	le.PutUint32(i[0x4:], BlockSize)
	for _, at := range []int{0x8, 0xC, 0x10, 0x90} { // accessed, changed, modified, made
		le.PutUint32(i[at:], l.now)
	}
	le.PutUint16(i[inodeLinks:], 2)
	le.PutUint32(i[0x1C:], BlockSize/512)
	le.PutUint32(i[0x20:], 0x80000) // it has extents:
	le.PutUint16(i[0x28:], 0xF30A)
	le.PutUint16(i[0x2A:], 1) // one
	le.PutUint16(i[0x2C:], 4) // of four at most
	le.PutUint16(i[0x38:], 1) // with one block
	le.PutUint32(i[0x3C:], uint32(l.root()))
	le.PutUint16(i[0x80:], inodeSize-128-96)
	return b
}

// rootDir is the root directory's block, with the names . and .. in it.
func (l *layout) rootDir() []byte {
	b := make([]byte, BlockSize)
	for _, e := range []struct {
		at, length int
		name       string
	}{{0, 12, "."}, {12, BlockSize - 12, ".."}} {
		le.PutUint32(b[e.at:], rootInode)
		le.PutUint16(b[e.at+4:], uint16(e.length))
		b[e.at+6], b[e.at+7] = byte(len(e.name)), 2
		copy(b[e.at+8:], e.name)
	}
	return b
}
