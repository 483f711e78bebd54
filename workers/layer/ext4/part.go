package ext4

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"time"
)

// partBlocks is the length of a part, in blocks: 4 MiB. A part is read as a whole when anything in
// it has changed.
const partBlocks = 1024

// settled is how long ago a file must have been changed for its inode to prove its content: the
// clock that gives the times moves in steps, and a direct write may end after its time was set.
const settled = 2 * time.Second

// Part is what an image has of one part of a file system.
type Part struct {
	Number int64
	Bytes  int64
	// Stamp stands for the content: two parts with one stamp have one content. It is made of the
	// content of all blocks that aren't of regular files, and, in the place of blocks of these, of the
	// file's inode but for the time of the last read: each write changes one of its times or its
	// version. "" if a file was changed less than settled before, so that its inode proves nothing.
	Stamp string

	s       *Snapshot
	extents []Extent
}

// Open gives the blocks, one after the other.
func (p Part) Open() io.Reader { return &reader{s: p.s, left: p.extents} }

// Parts gives what belongs into an image, and where. Only blocks that aren't of regular files are
// read for it. now is the time on the clock that the file system's times are of.
func (s *Snapshot) Parts(now time.Time) (Map, []Part, error) {
	m, err := s.blocks()
	if err != nil {
		return Map{}, nil, err
	}
	files, err := s.files(now.Add(-settled))
	if err != nil {
		return Map{}, nil, err
	}
	m.Part, m.Stamps = partBlocks, map[int64]string{}
	var all []Part
	for _, part := range m.parts() {
		stamp, err := s.stamp(part, &files)
		if err != nil {
			return Map{}, nil, err
		}
		if stamp != "" {
			m.Stamps[part.number] = stamp
		}
		all = append(all, Part{Number: part.number, Bytes: part.bytes(), Stamp: stamp, s: s, extents: part.extents})
	}
	return m, all, nil
}

// stamp gives that of a part. Parts are asked for in the order of their blocks.
func (s *Snapshot) stamp(part stretch, files *files) (string, error) {
	sum := sha256.New()
	put(sum, s.super[superUUID:][:16], uint64(part.number), uint64(len(part.extents)))
	settled := true
	for _, x := range part.extents {
		put(sum, nil, uint64(x[0]), uint64(x[1]))
		for block, end := x[0], x[0]+x[1]; block < end; {
			run, next := files.at(block, end)
			if run == nil {
				if err := s.sum(sum, block, next); err != nil {
					return "", err
				}
			} else {
				settled = settled && !run.recent
				put(sum, run.inode[:], uint64(run.file), uint64(run.within+block-run.first), uint64(next-block))
			}
			block = next
		}
	}
	if !settled {
		return "", nil
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func put(sum hash.Hash, b []byte, numbers ...uint64) {
	for _, n := range numbers {
		b = le.AppendUint64(b[:len(b):len(b)], n)
	}
	sum.Write(b)
}

// sum adds the blocks from first to before end, as they are in an image.
func (s *Snapshot) sum(sum hash.Hash, first, end int64) error {
	if _, err := io.Copy(sum, &reader{s: s, left: []Extent{{first, end - first}}}); err != nil {
		return fmt.Errorf("read the file system: %w", err)
	}
	return nil
}
