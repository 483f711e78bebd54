package image

import "encoding/binary"

// pageTable finds pages by their ids: page n is the one that was added as the n-th.
// It takes 16 bytes a page and between 5 and 11 for finding it, and while it grows
// half as much of these again.
type pageTable struct {
	blocks []*[idBlock]pageID // so that growing copies none
	count  int
	slots  []uint32 // page numbers plus one, where their ids hash to; 0 is free
}

const idBlock = 4096

func (t *pageTable) at(n uint32) pageID { return t.blocks[n/idBlock][n%idBlock] }

// add appends a page. Of two with one id the earlier is found.
func (t *pageTable) add(id pageID) {
	if t.count*4 >= len(t.slots)*3 {
		t.grow()
	}
	if t.count%idBlock == 0 {
		t.blocks = append(t.blocks, new([idBlock]pageID))
	}
	t.blocks[t.count/idBlock][t.count%idBlock] = id
	t.count++
	t.insert(uint32(t.count))
}

func (t *pageTable) grow() {
	t.slots = make([]uint32, max(1024, 2*len(t.slots)))
	for i := range t.count {
		t.insert(uint32(i + 1))
	}
}

func (t *pageTable) insert(n uint32) {
	if i, found := t.slot(t.at(n - 1)); !found {
		t.slots[i] = n
	}
}

// slot is where an id is, or would be. Ids are keyed hashes, so an attacker can't
// choose colliding ones.
func (t *pageTable) slot(id pageID) (i uint64, found bool) {
	mask := uint64(len(t.slots) - 1)
	for i = binary.LittleEndian.Uint64(id[:]) & mask; ; i = (i + 1) & mask {
		n := t.slots[i]
		if n == 0 || t.at(n-1) == id {
			return i, n != 0
		}
	}
}

// find gives a page's number.
func (t *pageTable) find(id pageID) (uint32, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	i, found := t.slot(id)
	if !found {
		return 0, false
	}
	return t.slots[i] - 1, true
}
