package image

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Reader reads one image. Its methods may be called concurrently.
//
// What it hands out has been verified: each MiB of a pack is compared with its
// digest in the index whenever it is fetched, the index with its digest in the
// header, the header with its signature and with the head. A pack that changes
// while it is being read makes no difference to that.
//
// It holds at most some 90 MiB (32 MiB of decoded frames, 40 MiB of verified
// ciphertext, and what is being fetched and decoded), besides the index, 24 bytes
// for each run of pages, and what a Borrower has. All of it is in memory alone.
type Reader struct {
	ctx    context.Context
	cancel context.CancelFunc
	store  objectstore.Store
	place  lineage
	head   Head
	header schemas.ImageHeader
	index  *index
	byName map[string]int // entries by name

	packs   []*packReader
	buffers *buffers
	frames  *cache[frameID]
	spans   *cache[spanID]
	zstd    *zstd.Decoder
	scratch sync.Pool         // of *[]byte: compressed frames
	order   []frameID         // of the image's frames, as its entries need them
	spot    map[frameID]int32 // of each frame in that order
	spill   *spill            // pages that are needed again; nil without a Sequence
	cores   chan struct{}     // one token for each frame that may be decoded ahead
	work    sync.WaitGroup    // what goes on in the background

	aheadMu sync.Mutex
	listed  []bool // of each frame of order: it was decoded ahead, or is

	identities []age.Identity
	keysMu     sync.Mutex
	keys       map[string]age.Identity // unwrapped lineage keys by id

	times readTimes
	given atomic.Int64 // bytes that were decoded

	stampsMu sync.Mutex
	stamps   map[string]string // of files that were made of its entries, by name

	closing sync.Mutex // held to start background work, and to stop it
}

// Given says how many bytes of content the reader has decoded so far. It may be called at any
// time, by anyone.
func (r *Reader) Given() int64 { return r.given.Load() }

// Caches, in bytes. Where many cores decode ahead, the first grows with them.
const (
	frameCache = 32 << 20 // decoded frames
	spanCache  = 40 << 20 // verified ciphertext: three packs
)

// Open verifies a snapshot's header and index and returns its reader; the packs
// are verified as they are read. ctx governs all reading until Close.
// Errors: ErrNotFound, ErrCorrupt, ErrForged, ErrNoKey, or what the store says.
func Open(ctx context.Context, store objectstore.Store, head Head, o ReadOptions) (*Reader, error) {
	place, err := lineageOf(head.Name)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	r := &Reader{store: store, place: place, head: head, identities: slices.Clone(o.Identities), keys: map[string]age.Identity{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.open(o); err != nil {
		r.cancel()
		return nil, fmt.Errorf("open image: %w", err)
	}
	return r, nil
}

func (r *Reader) open(o ReadOptions) error {
	s, err := fetchHead(r.ctx, r.store, r.place, r.head, o)
	if err != nil {
		return err
	}
	r.header = s.header
	sealed, err := fetchObject(r.ctx, r.store, r.head.Name, s.size, r.header.Index)
	if err != nil {
		return err
	}
	id, err := r.identity(r.header.KID)
	if err != nil {
		return err
	}
	if r.index, err = unsealIndex(sealed, r.header.Packs, id); err != nil {
		return fmt.Errorf("index of %s: %w", r.head.Name, err)
	}
	for i, p := range r.header.Packs {
		if p.Spans != "" && spansDigest(r.index.packs[i].Spans) != p.Spans {
			return fmt.Errorf("%w: header and index of %s don't agree about pack %s", ErrCorrupt, r.head.Name, p.Name)
		}
	}
	r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxFrame*PageSize))
	if err != nil {
		return fmt.Errorf("start decompression: %w", err)
	}
	r.prepare()
	return nil
}

func (r *Reader) prepare() {
	r.byName = make(map[string]int, len(r.index.entries))
	for i, e := range r.index.entries {
		r.byName[e.Name] = i
	}
	for i, p := range r.header.Packs {
		r.packs = append(r.packs, newPackReader(r, int32(i), p, r.index.packs[i]))
	}
	cores := runtime.GOMAXPROCS(0)
	r.cores = make(chan struct{}, cores)
	r.buffers = newBuffers()
	r.frames = newCache[frameID](max(frameCache, int64(2*aheadFrames*cores)<<20), r.buffers)
	r.spans = newCache[spanID](spanCache, r.buffers)
	r.plan(r.all())
}

// plan lists the frames and packs in the order in which files first need them.
func (r *Reader) plan(files []*file) {
	r.order, r.spot = nil, map[frameID]int32{}
	var last *packReader
	seen := make([]bool, len(r.packs))
	for _, f := range files {
		f.stretches(func(id frameID, _, _, _ int64) {
			p := r.packs[id.pack]
			if !seen[id.pack] {
				seen[id.pack] = true
				p.next = nil
				if last != nil {
					last.next = p
				}
				last = p
			}
			if _, ok := r.spot[id]; !ok {
				r.spot[id] = int32(len(r.order))
				r.order = append(r.order, id)
			}
		})
	}
	r.listed = make([]bool, len(r.order))
}

// all gives the files of the image in their order.
func (r *Reader) all() (files []*file) {
	for i, e := range r.index.entries {
		if e.Type == TypeFile {
			files = append(files, r.fileAt(i))
		}
	}
	return files
}

// Header returns the verified header.
func (r *Reader) Header() schemas.ImageHeader { return r.header }

// Head returns what was opened.
func (r *Reader) Head() Head { return r.head }

// Entries returns the entries in the order in which they were added. The caller
// must not change them.
func (r *Reader) Entries() []Entry { return r.index.entries }

// Close stops what goes on in the background, and gives memory back that no file has in use.
// Files that are still open fail.
func (r *Reader) Close() error {
	r.closing.Lock()
	r.cancel()
	r.closing.Unlock()
	r.work.Wait()
	r.frames.close()
	r.spans.close()
	r.buffers.close()
	return nil
}

// identity unwraps a lineage key, once.
func (r *Reader) identity(kid string) (age.Identity, error) {
	r.keysMu.Lock()
	defer r.keysMu.Unlock()
	if id, ok := r.keys[kid]; ok {
		return id, nil
	}
	id, err := unwrapKey(r.ctx, r.store, r.place, kid, r.identities)
	if err != nil {
		return nil, err
	}
	r.keys[kid] = id
	return id, nil
}

// background runs fn unless the reader is being closed.
func (r *Reader) background(fn func()) bool {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.work.Go(fn)
	return true
}

// Verify reads everything that the image consists of: the index again, every
// pack with the ids of its pages, and every frame. It returns what is wrong, all
// of it.
func (r *Reader) Verify(ctx context.Context) error {
	var errs []error
	for _, p := range r.packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, r.verifyPack(ctx, p))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("verify image %s: %w", r.head.Name, err)
	}
	for i := range r.order {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := r.frameAhead(r.order[i], -1)
		if err != nil {
			return fmt.Errorf("verify image %s: %w", r.head.Name, err)
		}
		r.frames.release(s)
	}
	r.aheadMu.Lock()
	defer r.aheadMu.Unlock()
	clear(r.listed) // it is read once more now
	return nil
}

func (r *Reader) verifyPack(ctx context.Context, p *packReader) error {
	err := r.checkPack(ctx, p)
	_, idsErr := fetchObject(ctx, r.store, r.place.ids(p.ref.Name), 0, p.ref.IDs)
	return errors.Join(err, idsErr)
}
