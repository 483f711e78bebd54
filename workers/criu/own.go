package criu

import (
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/layer/ext4"
)

// A private layer that is a file system has an entry for each part of it with its blocks, one after
// the other, and before them where they belong. So an image's size is that of what is in use,
// and parts in which nothing has changed aren't read again.
const (
	layerMap    = "layer/map.json"
	layerBlocks = "layer/blocks" // the only part, of images of earlier versions
)

func layerPart(m ext4.Map, number int64) string {
	if m.Part == 0 {
		return layerBlocks
	}
	return fmt.Sprintf("%s.%08d", layerBlocks, number)
}

// addFileSystem adds the private layer as the file system that it is, without what isn't in
// use there. It warns of a file system that has failed.
func addFileSystem(sink driver.Sink, own *os.File) ([]schemas.Warning, error) {
	fail := func(err error) error { return fmt.Errorf("add the session's layer to the image: %w", err) }
	s, err := ext4.Open(own)
	if err != nil {
		return nil, fail(err)
	}
	m, parts, err := s.Parts(time.Now())
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
	for _, p := range parts {
		if err := addPart(sink, layerPart(m, p.Number), p); err != nil {
			return nil, fail(err)
		}
	}
	if s.Failed() {
		return []schemas.Warning{failedLayer}, nil
	}
	return nil, nil
}

func addPart(sink driver.Sink, name string, p ext4.Part) error {
	e := image.Entry{Name: name, Type: image.TypeFile, Mode: 0o600, Size: p.Bytes}
	knowing, ok := sink.(layer.Stamped)
	if !ok {
		return sink.Add(e, p.Open())
	}
	return knowing.AddStamped(e, p.Stamp, func() (io.ReadCloser, error) { return io.NopCloser(p.Open()), nil })
}

// failedLayer is what a full disk of the host, or a bad one, leaves for good.
var failedLayer = schemas.Warning{
	Code: schemas.WarnLayer, Subject: "the session's own files",
	Text: "the file system of the session's own files has met an error, as when the host's disk is full: what was written last may be missing; an earlier snapshot is without it",
}

// fillFileSystem has the private layer put into the empty file that it is mounted from, if
// the image has it as a file system.
func fillFileSystem(source driver.Source, own *layer.Extraction) error {
	sizes := map[string]int64{}
	for _, e := range source.Entries() {
		if part(e.Name) == partLayer {
			sizes[e.Name] = e.Size
		}
	}
	if _, ok := sizes[layerMap]; !ok {
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
	to, err := ext4.NewFiller(own.Root, m)
	if err != nil {
		return fail(err)
	}
	targets := to.Targets()
	if len(targets) != len(sizes)-1 {
		return fail(fmt.Errorf("%d parts: %w", len(sizes)-1, ext4.ErrDamaged))
	}
	told, tell := source.(layer.Restamped)
	for _, t := range targets {
		name := layerPart(m, t.Number)
		if size, ok := sizes[name]; !ok || size != t.Bytes {
			return fail(fmt.Errorf("%s: %d bytes of blocks: %w", name, size, ext4.ErrDamaged))
		}
		if err := own.Beside(name, t); err != nil {
			return fail(err)
		}
		if tell && t.Stamp != "" {
			told.Restamp(name, t.Stamp)
		}
	}
	return nil
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
