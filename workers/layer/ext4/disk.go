package ext4

import "encoding/binary"

// What Format makes, and Open takes: 4 KiB blocks, groups of 128 MiB with their own bitmaps and
// inode table at their beginning.
const (
	BlockSize      = 4096
	groupBlocks    = 8 * BlockSize // a bitmap of one block
	groupInodes    = 8192          // one for 16 KiB
	inodeSize      = 256
	blockInodes    = BlockSize / inodeSize
	tableBlocks    = groupInodes / blockInodes
	descSize       = 32
	superOffset    = 1024
	firstInode     = 11 // below are inodes of the file system's own
	rootInode      = 2
	magic          = 0xEF53
	stateClean     = 1
	stateErrors    = 2
	uninitInodes   = 1 // flags of a group
	uninitBlocks   = 2
	zeroedInodes   = 4
	maxGroups      = 1 << 16
	errorsReadOnly = 2
)

// The features of a file system.
const (
	compat   = 0x8 | 0x20 | 0x200             // ext_attr, dir_index, sparse_super2: no copies of the superblock
	incompat = 0x2 | 0x40 | 0x200 | 0x400     // filetype, extents, flex_bg, ea_inode
	roCompat = 0x2 | 0x8 | 0x10 | 0x20 | 0x40 // large_file, huge_file, gdt_csum, dir_nlink, extra_isize
)

var le = binary.LittleEndian

// super is the superblock, as stored.
type super []byte

// The places of its fields.
const (
	superInodes      = 0x00
	superBlocks      = 0x04
	superFreeBlocks  = 0x0C
	superFreeInodes  = 0x10
	superLogBlock    = 0x18
	superLogCluster  = 0x1C
	superGroupBlocks = 0x20
	superGroupClusts = 0x24
	superGroupInodes = 0x28
	superMaxMounts   = 0x36
	superMagic       = 0x38
	superState       = 0x3A
	superErrors      = 0x3C
	superRevision    = 0x4C
	superFirstInode  = 0x54
	superInodeSize   = 0x58
	superCompat      = 0x5C
	superIncompat    = 0x60
	superROCompat    = 0x64
	superUUID        = 0x68
	superLastOrphan  = 0xE8
	superHashSeed    = 0xEC
	superHashVersion = 0xFC
	superMinExtra    = 0x15C
	superWantExtra   = 0x15E
	superFlags       = 0x160
	superLogFlex     = 0x174
	superOverhead    = 0x248
	superSize        = 1024
)

func (s super) get(at int) uint32    { return le.Uint32(s[at:]) }
func (s super) put(at int, v uint32) { le.PutUint32(s[at:], v) }
func (s super) put16(at int, v uint16) {
	le.PutUint16(s[at:], v)
}

// desc is the descriptor of one group, as stored.
type desc []byte

func (d desc) blockBitmap() int64 { return int64(le.Uint32(d[0x0:])) }
func (d desc) inodeBitmap() int64 { return int64(le.Uint32(d[0x4:])) }
func (d desc) inodeTable() int64  { return int64(le.Uint32(d[0x8:])) }
func (d desc) freeBlocks() uint32 { return uint32(le.Uint16(d[0xC:])) }
func (d desc) freeInodes() uint32 { return uint32(le.Uint16(d[0xE:])) }
func (d desc) flags() uint16      { return le.Uint16(d[0x12:]) }

// sum is the checksum that ext4 calls gdt_csum: CRC-16 of the file system's id, the group's
// number and the descriptor up to the checksum.
func (d desc) sum(uuid []byte, group uint32) uint16 {
	crc := crc16(0xFFFF, uuid)
	crc = crc16(crc, le.AppendUint32(nil, group))
	return crc16(crc, d[:0x1E])
}

func crc16(crc uint16, b []byte) uint16 {
	for _, c := range b {
		crc ^= uint16(c)
		for range 8 {
			low := crc & 1
			crc >>= 1
			if low != 0 {
				crc ^= 0xA001
			}
		}
	}
	return crc
}
