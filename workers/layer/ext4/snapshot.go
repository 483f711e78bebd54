package ext4

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// The places of an inode's fields.
const (
	inodeDeleted = 0x14 // when; of an orphan, the next one
	inodeLinks   = 0x1A
)

// ErrDamaged is the cause of errors about a file system that this package didn't make,
// or that isn't one any more.
var ErrDamaged = errors.New("the file system is damaged")

// Snapshot is a file system that stands still: nothing may change it while it is read.
type Snapshot struct {
	f       *os.File
	size    int64
	super   super
	groups  []group
	orphans map[uint32]uint32 // inodes in use without a name, with the next one
}

// group is what of one group is allocated.
type group struct {
	first  int64  // block
	blocks []byte // bitmap; nil if all that is there was there from the beginning
	inodes []byte // bitmap; nil if none was ever in use
	table  int64  // first block of the inode table
}

// Failed reports whether the kernel has met an error in the file system.
func (s *Snapshot) Failed() bool { return le.Uint16(s.super[superState:])&stateErrors != 0 }

// Open looks at the file system in a file, after all of it was synced.
func Open(f *os.File) (*Snapshot, error) {
	s := &Snapshot{f: f, super: make(super, superSize), orphans: map[uint32]uint32{}}
	if _, err := f.ReadAt(s.super, superOffset); err != nil {
		return nil, fmt.Errorf("read the superblock: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := s.readGroups(); err != nil {
		return nil, err
	}
	return s, s.findOrphans()
}

// check takes a file system of the kind that Format makes, and no other.
func (s *Snapshot) check() error {
	b := s.super
	blocks := b.get(superBlocks)
	s.size = int64(blocks) * BlockSize
	st, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("read the superblock: %w", err)
	}
	if le.Uint16(b[superMagic:]) != magic || b.get(superLogBlock) != 2 || b.get(superGroupBlocks) != groupBlocks ||
		b.get(superGroupInodes) != groupInodes || le.Uint16(b[superInodeSize:]) != inodeSize ||
		b.get(superCompat) != compat || b.get(superIncompat) != incompat || b.get(superROCompat) != roCompat ||
		blocks == 0 || blocks%groupBlocks != 0 || st.Size() != s.size {
		return fmt.Errorf("read the superblock: %w", ErrDamaged)
	}
	return nil
}

func (s *Snapshot) readGroups() error {
	n := int(s.super.get(superBlocks) / groupBlocks)
	descs := make([]byte, n*descSize)
	if _, err := s.f.ReadAt(descs, BlockSize); err != nil {
		return fmt.Errorf("read the groups: %w", err)
	}
	var freeBlocks, freeInodes uint32
	for i := range n {
		d := desc(descs[i*descSize:][:descSize])
		if le.Uint16(d[0x1E:]) != d.sum(s.super[superUUID:][:16], uint32(i)) {
			return fmt.Errorf("read group %d: %w", i, ErrDamaged)
		}
		g := group{first: int64(i) * groupBlocks, table: d.inodeTable()}
		var err error
		if d.flags()&uninitBlocks == 0 {
			g.blocks, err = s.bitmap(d.blockBitmap())
		}
		if d.flags()&uninitInodes == 0 && err == nil {
			g.inodes, err = s.bitmap(d.inodeBitmap())
		}
		if g.inodes != nil && g.blocks == nil && err == nil {
			err = ErrDamaged
		}
		if err != nil {
			return fmt.Errorf("read group %d: %w", i, err)
		}
		s.groups = append(s.groups, g)
		freeBlocks += d.freeBlocks()
		freeInodes += d.freeInodes()
	}
	// The kernel writes these, and that it is clean, when it unmounts.
	s.super.put(superFreeBlocks, freeBlocks)
	s.super.put(superFreeInodes, freeInodes)
	le.PutUint16(s.super[superState:], le.Uint16(s.super[superState:])|stateClean)
	return nil
}

func (s *Snapshot) bitmap(block int64) ([]byte, error) {
	b := make([]byte, BlockSize)
	if _, err := s.f.ReadAt(b, block*BlockSize); err != nil {
		return nil, err
	}
	return b, nil
}

func isSet(bitmap []byte, i int64) bool { return bitmap[i/8]&(1<<(i%8)) != 0 }

// inUse gives the inodes of a block of the inode table that are in use, as bits.
func (g group) inUse(tableBlock int64) uint16 {
	if g.inodes == nil {
		return 0
	}
	return le.Uint16(g.inodes[tableBlock*blockInodes/8:])
}

// findOrphans looks for files that are open and have no name. The list in the superblock is
// for them.
func (s *Snapshot) findOrphans() error {
	var last uint32
	block := make([]byte, BlockSize)
	for i, g := range s.groups {
		for t := range int64(tableBlocks) {
			used := g.inUse(t)
			if used == 0 {
				continue
			}
			if _, err := s.f.ReadAt(block, (g.table+t)*BlockSize); err != nil {
				return fmt.Errorf("read the inodes of group %d: %w", i, err)
			}
			for ; used != 0; used &= used - 1 {
				n := bits.TrailingZeros16(used)
				number := uint32(i*groupInodes) + uint32(t*blockInodes) + uint32(n) + 1
				if number >= firstInode && le.Uint16(block[n*inodeSize+inodeLinks:]) == 0 {
					s.orphans[number] = last
					last = number
				}
			}
		}
	}
	s.super.put(superLastOrphan, last)
	return nil
}

// blocks is where what belongs into an image is.
func (s *Snapshot) blocks() (Map, error) {
	m := Map{Size: s.size, Extents: []Extent{}}
	for at := int64(0); at < s.size; {
		data, end, err := nextData(s.f, at, s.size)
		if err != nil {
			return Map{}, err
		}
		for block := data / BlockSize; block*BlockSize < end; block++ {
			g := s.groups[block/groupBlocks]
			if g.blocks == nil && block == g.first {
				block += groupBlocks - 1
				continue
			}
			if s.wanted(block) {
				m.add(block)
			}
		}
		at = (end + BlockSize - 1) / BlockSize * BlockSize
	}
	return m, nil
}

// nextData finds the next stretch of a file that isn't a hole, at its end an empty one.
func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL): // its file system knows no holes
		return at, size, nil
	case err == nil:
		to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look for data: %w", err)
	}
	return from, min(to, size), nil
}

// reader reads the blocks of extents.
type reader struct {
	s    *Snapshot
	left []Extent
	done int64  // blocks of the first one
	rest []byte // of a block, for a caller with less room
}

// Read gives as many blocks of one extent as there is room for.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) > 0 {
		n := copy(p, r.rest)
		r.rest = r.rest[n:]
		return n, nil
	}
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	if len(p) < BlockSize {
		b := make([]byte, BlockSize)
		if _, err := r.Read(b); err != nil {
			return 0, err
		}
		r.rest = b
		return r.Read(p)
	}
	x := r.left[0]
	first := x[0] + r.done
	n := min(x[1]-r.done, int64(len(p)/BlockSize))
	if _, err := r.s.f.ReadAt(p[:n*BlockSize], first*BlockSize); err != nil {
		return 0, fmt.Errorf("read the file system: %w", err)
	}
	for i := range n {
		r.s.clean(p[i*BlockSize:][:BlockSize], first+i)
	}
	if r.done += n; r.done == x[1] {
		r.left, r.done = r.left[1:], 0
	}
	return int(n * BlockSize), nil
}

// wanted reports whether a block belongs into an image.
func (s *Snapshot) wanted(block int64) bool {
	g := s.groups[block/groupBlocks]
	if t := block - g.table; t >= 0 && t < tableBlocks {
		return g.inUse(t) != 0
	}
	return g.blocks != nil && isSet(g.blocks, block-g.first)
}

// clean takes out of a block what isn't in use, and puts into it what unmounting would.
func (s *Snapshot) clean(b []byte, block int64) {
	if block == 0 {
		copy(b[superOffset:], s.super)
		return
	}
	i := block / groupBlocks
	g := s.groups[i]
	t := block - g.table
	if t < 0 || t >= tableBlocks {
		return
	}
	used := g.inUse(t)
	for n := range int64(blockInodes) {
		inode := b[n*inodeSize:][:inodeSize]
		if used&(1<<n) == 0 {
			clear(inode)
		} else if next, ok := s.orphans[uint32(i*groupInodes+t*blockInodes+n)+1]; ok {
			le.PutUint32(inode[inodeDeleted:], next)
		}
	}
}
