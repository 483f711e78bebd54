package ext4

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sort"
)

// Extent is a stretch of blocks.
type Extent [2]int64 // the first block, and how many

// Map says where the blocks belong that an image has of a file system. The others are holes.
type Map struct {
	Size    int64    `json:"size"` // of the file system, in bytes
	Extents []Extent `json:"extents"`

	// Part is the length of a part of the file system, in blocks: an image has the blocks of each
	// part by themselves. With 0 it has all in one, as images of earlier versions.
	Part   int64            `json:"part,omitempty"`
	Stamps map[int64]string `json:"stamps,omitempty"` // of parts, by their number
}

func (m *Map) add(block int64) {
	if n := len(m.Extents); n > 0 && m.Extents[n-1][0]+m.Extents[n-1][1] == block {
		m.Extents[n-1][1]++
		return
	}
	m.Extents = append(m.Extents, Extent{block, 1})
}

// check refuses a map that can't be one.
func (m Map) check() error {
	var end int64
	for _, x := range m.Extents {
		if x[0] < end || x[1] <= 0 || x[1] > m.Size/BlockSize || x[0] > m.Size/BlockSize-x[1] {
			return fmt.Errorf("read where blocks belong: %w", ErrDamaged)
		}
		end = x[0] + x[1]
	}
	if m.Size <= 0 || m.Size > Largest || m.Part < 0 || m.Part != 0 && m.Part < leastPart {
		return fmt.Errorf("read where blocks belong: %w", ErrDamaged)
	}
	return nil
}

// leastPart bounds how many parts a map has. In blocks.
const leastPart = 256

// stretch is what a part has.
type stretch struct {
	number  int64
	extents []Extent
}

func (s stretch) bytes() (n int64) {
	for _, x := range s.extents {
		n += x[1] * BlockSize
	}
	return n
}

// parts cuts the extents of a map at the ends of its parts. Parts without blocks are left out.
func (m Map) parts() (all []stretch) {
	part := m.Part
	if part == 0 {
		part = max(m.Size/BlockSize, 1)
	}
	for _, x := range m.Extents {
		for x[1] > 0 {
			number := x[0] / part
			n := min(x[1], (number+1)*part-x[0])
			if len(all) == 0 || all[len(all)-1].number != number {
				all = append(all, stretch{number: number})
			}
			last := &all[len(all)-1]
			last.extents = append(last.extents, Extent{x[0], n})
			x = Extent{x[0] + n, x[1] - n}
		}
	}
	return all
}

// Filler makes a file system of the blocks that an image has of it, in an empty file.
type Filler struct {
	f *os.File
	m Map
}

// Target takes the blocks of one part.
type Target struct {
	Number int64
	Bytes  int64 // how many it takes
	Stamp  string
	io.WriterAt
}

// NewFiller gives the file its size.
func NewFiller(f *os.File, m Map) (*Filler, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := f.Truncate(m.Size); err != nil {
		return nil, fmt.Errorf("make the layer's file: %w", err)
	}
	return &Filler{f, m}, nil
}

// Targets are those of all parts.
func (w *Filler) Targets() (all []Target) {
	for _, p := range w.m.parts() {
		t := &target{f: w.f, extents: p.extents}
		var at int64
		for _, x := range p.extents {
			t.starts = append(t.starts, at)
			at += x[1] * BlockSize
		}
		all = append(all, Target{p.number, at, w.m.Stamps[p.number], t})
	}
	return all
}

// target is an io.WriterAt for the blocks of one part, one after the other, at their places.
// Blocks of zeros stay holes.
type target struct {
	f       *os.File
	extents []Extent
	starts  []int64 // of each extent, among the blocks
}

// WriteAt implements io.WriterAt. It may be called concurrently.
func (w *target) WriteAt(b []byte, off int64) (written int, err error) {
	i := sort.Search(len(w.starts), func(i int) bool { return w.starts[i] > off }) - 1
	for ; len(b) > 0; i++ {
		if i < 0 || i >= len(w.extents) || off-w.starts[i] >= w.extents[i][1]*BlockSize {
			return written, fmt.Errorf("write the layer's blocks: %w", ErrDamaged)
		}
		within := off - w.starts[i]
		n := min(int64(len(b)), w.extents[i][1]*BlockSize-within)
		if !zero(b[:n]) {
			if _, err := w.f.WriteAt(b[:n], w.extents[i][0]*BlockSize+within); err != nil {
				return written, fmt.Errorf("write the layer's blocks: %w", err)
			}
		}
		b, off, written = b[n:], off+n, written+int(n)
	}
	return written, nil
}

func zero(b []byte) bool {
	for len(b) > BlockSize {
		if !bytes.Equal(b[:BlockSize], zeros[:]) {
			return false
		}
		b = b[BlockSize:]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

var zeros [BlockSize]byte
