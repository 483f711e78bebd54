package criu

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/layer/ext4"
)

// A private layer that is a file system has two entries: its blocks, one after the other, and
// before them where they belong. So an image's size is that of what is in use.
const (
	layerMap    = "layer/map.json"
	layerBlocks = "layer/blocks"
)

// addFileSystem adds the private layer as the file system that it is, without what isn't in
// use there. It warns of a file system that has failed.
func addFileSystem(sink driver.Sink, own *os.File) ([]schemas.Warning, error) {
	fail := func(err error) error { return fmt.Errorf("add the session's layer to the image: %w", err) }
	s, err := ext4.Open(own)
	if err != nil {
		return nil, fail(err)
	}
	m, blocks, err := s.Blocks()
	if err != nil {
		return nil, fail(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fail(err)
	}
	if err := addBytes(sink, layerMap, b); err != nil {
		return nil, fail(err)
	}
	if err := sink.Add(image.Entry{Name: layerBlocks, Type: image.TypeFile, Mode: 0o600, Size: -1}, blocks); err != nil {
		return nil, fail(err)
	}
	if s.Failed() {
		return []schemas.Warning{failedLayer}, nil
	}
	return nil, nil
}

// failedLayer is what a full disk of the host, or a bad one, leaves for good.
var failedLayer = schemas.Warning{
	Code: schemas.WarnLayer, Subject: "the session's own files",
	Text: "the file system of the session's own files has met an error, as when the host's disk is full: what was written last may be missing; an earlier snapshot is without it",
}

// fillFileSystem has the private layer put into the empty file that it is mounted from, if
// the image has it as a file system.
func fillFileSystem(source driver.Source, own *layer.Extraction) error {
	i := slices.IndexFunc(source.Entries(), func(e image.Entry) bool { return e.Name == layerBlocks })
	if i < 0 {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("restore the session's layer: %w", err) }
	r, err := openAlone(source, layerMap)
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	var m ext4.Map
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return fail(err)
	}
	if n, err := m.Bytes(); err != nil || n != source.Entries()[i].Size {
		return fail(fmt.Errorf("%d bytes of blocks: %w", source.Entries()[i].Size, ext4.ErrDamaged))
	}
	to, err := ext4.NewFiller(own.Root, m)
	if err != nil {
		return fail(err)
	}
	return own.Beside(layerBlocks, to)
}

// ownLayer says what a new shim's private layer is.
type ownLayer struct {
	size  int64 // of its file system, in bytes; 0 for a directory
	given bool  // it comes with the image
}

// The sizes of new layers. A layer takes only what is in it; its size is the most that a
// session may have of files. Larger ones take longer to mount and more of the kernel's memory.
const (
	smallestLayer = 16 << 30
	largestLayer  = 256 << 30
)

// layerSize gives the size for new layers on a disk: its own, as a power of two.
func layerSize(disk int64) int64 {
	size := int64(smallestLayer)
	if disk > size {
		size = 1 << bits.Len64(uint64(disk-1))
	}
	return min(size, largestLayer)
}

// layerFor gives the private layer for a start, without a source, or for a restore. An image
// of an earlier version has the layer's files alone: they get a new file system.
func (d *Driver) layerFor(spec schemas.Spec, source driver.Source) ownLayer {
	var fs unix.Statfs_t
	own := ownLayer{size: smallestLayer}
	if unix.Statfs(d.dir.sessions, &fs) == nil {
		own.size = layerSize(int64(fs.Blocks) * fs.Bsize)
	}
	var content int64
	if source != nil {
		for _, e := range source.Entries() {
			own.given = own.given || e.Name == layerMap
			if part(e.Name) == partUpper {
				content += e.Size
			}
		}
	}
	if spec.Disk > 0 {
		own.size = spec.Disk
	}
	if d.options.Directories && !own.given {
		return ownLayer{}
	}
	own.size = max(own.size, 2*content)
	return own
}
