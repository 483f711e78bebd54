package image

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// frameID names a frame: the pack's place in the index, the frame's in the pack.
type frameID struct{ pack, frame int32 }

// spanID names a MiB of a pack as stored.
type spanID struct{ pack, span int32 }

// packReader reads one pack.
type packReader struct {
	r      *Reader
	number int32
	name   string // of the object
	ref    schemas.ImagePack
	spans  []string // BLAKE3 of each MiB
	frames []frame
	known  []atomic.Bool // of each frame: it was decoded before
	ahead  atomic.Bool   // it is being read from end to end
	wanted atomic.Bool   // a frame before it was read: it is being fetched
	next   *packReader   // which the image needs after this one, if any

	mu    sync.Mutex
	plain io.ReaderAt // the compressed frames; nil until first used
}

// frame is a frame's place in its pack.
type frame struct {
	offset, size int64 // in the decrypted pack
	page, pages  int64
}

func newPackReader(r *Reader, number int32, ref schemas.ImagePack, x indexPack) *packReader {
	p := &packReader{r: r, number: number, name: r.place.pack(ref.Name), ref: ref, spans: x.Spans}
	var next frame
	for _, f := range x.Frames {
		next.size, next.pages = f[0], f[1]
		p.frames = append(p.frames, next)
		next.offset, next.page = next.offset+f[0], next.page+f[1]
	}
	p.known = make([]atomic.Bool, len(p.frames))
	return p
}

// frameOf finds the frame that holds a page.
func (p *packReader) frameOf(page int64) int {
	return sort.Search(len(p.frames), func(i int) bool { return p.frames[i].page > page }) - 1
}

// open decrypts the pack's header, if that hasn't been done, and returns the
// decrypted pack.
func (p *packReader) open() (io.ReaderAt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plain != nil {
		return p.plain, nil
	}
	id, err := p.r.identity(p.ref.KID)
	if err != nil {
		return nil, err
	}
	done := p.r.times.open.begin()
	plain, size, err := age.DecryptReaderAt(ciphertext{p}, p.ref.Size, id)
	done()
	if err != nil {
		return nil, p.failed(err)
	}
	if last := p.frames[len(p.frames)-1]; size != last.offset+last.size {
		return nil, p.failed(fmt.Errorf("%d bytes decrypted, its frames have %d", size, last.offset+last.size))
	}
	p.plain = plain
	return plain, nil
}

// failed marks an error as damage, unless the store failed or the bytes are known
// to be wrong already.
func (p *packReader) failed(err error) error {
	if errors.Is(err, errStore) || errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%s: %w", p.name, ageError(err))
}

// errStore marks errors of the store on their way through age.
var errStore = errors.New("read pack")

// decode fetches, decrypts and decompresses one frame, into buf if that has the room.
func (p *packReader) decode(f frame, buf []byte) ([]byte, error) {
	plain, err := p.open()
	if err != nil {
		return nil, err
	}
	stored := p.r.borrow(int(f.size))
	defer p.r.scratch.Put(&stored)
	done := p.r.times.open.begin()
	n, err := plain.ReadAt(stored, f.offset)
	done()
	if n < len(stored) {
		return nil, p.failed(err)
	}
	size := int(f.pages * PageSize)
	done = p.r.times.decompress.begin()
	if cap(buf) < size {
		buf = make([]byte, 0, size)
	}
	data, err := p.r.zstd.DecodeAll(stored, buf)
	done()
	if err == nil && len(data) != size {
		err = fmt.Errorf("%d bytes instead of %d", len(data), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: decompress frame: %w", ErrCorrupt, p.name, err)
	}
	return data, nil
}

// decodeNumber decodes a frame and counts it.
func (p *packReader) decodeNumber(frame int32, buf []byte) ([]byte, error) {
	data, err := p.decode(p.frames[frame], buf)
	if err != nil {
		return nil, err
	}
	p.r.given.Add(int64(len(data)))
	if p.known[frame].Swap(true) {
		p.r.times.again.Add(int64(len(data)))
	}
	return data, nil
}

// borrow gives a buffer for what is only looked at in passing.
func (r *Reader) borrow(size int) []byte {
	if b, ok := r.scratch.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// ciphertext is the pack as stored, of which no byte is given out unverified.
type ciphertext struct{ *packReader }

func (c ciphertext) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		if off >= c.ref.Size {
			return n, io.EOF
		}
		done := c.r.times.wait.begin()
		s, span, err := c.span(int32(off / spanSize))
		done()
		if err != nil {
			return n, err
		}
		m := copy(b[n:], span[off%spanSize:])
		c.r.spans.release(s)
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// span returns one verified MiB, which the caller releases. Where the pack is read from end
// to end, all that follows is fetched by the same request.
func (p *packReader) span(i int32) (s *slot[spanID], data []byte, err error) {
	s, mine, err := p.r.spans.own(spanID{p.number, i})
	if err != nil {
		return nil, nil, err
	}
	if !mine {
		return s, s.data, nil
	}
	slots := []*slot[spanID]{s}
	for next := i + 1; p.ahead.Load() && int(next) < len(p.spans) && len(slots) < aheadSpans; next++ {
		s, mine := p.r.spans.claim(spanID{p.number, next})
		if !mine {
			p.r.spans.release(s)
			break
		}
		slots = append(slots, s)
	}
	if !p.r.background(func() { p.fetch(slots) }) {
		p.finish(slots, p.r.ctx.Err())
	}
	for _, other := range slots[1:] {
		p.r.spans.release(other)
	}
	if data, err = s.wait(); err != nil {
		p.r.spans.release(s)
		return nil, nil, err
	}
	return s, data, nil
}

// aheadSpans is how many MiB are fetched by one request: a pack of usual size.
const aheadSpans = 17

// fetch reads neighbouring spans and verifies each.
func (p *packReader) fetch(slots []*slot[spanID]) {
	first := int64(slots[0].key.span)
	length := min(int64(len(slots))*spanSize, p.ref.Size-first*spanSize)
	body, err := p.r.store.Get(p.r.ctx, p.name, first*spanSize, length)
	if errors.Is(err, objectstore.ErrNotFound) {
		p.finish(slots, fmt.Errorf("%w: %s is missing", ErrCorrupt, p.name))
		return
	}
	if err != nil {
		p.finish(slots, fmt.Errorf("%w: %w", errStore, err))
		return
	}
	defer body.Close()
	for i, s := range slots {
		data, err := p.readSpan(body, s.key.span)
		if err != nil {
			p.finish(slots[i:], err)
			return
		}
		p.r.spans.finish(s, data, nil)
	}
}

func (p *packReader) readSpan(body io.Reader, span int32) ([]byte, error) {
	n := int(min(spanSize, p.ref.Size-int64(span)*spanSize))
	data := p.r.buffers.get(n)[:n]
	if err := p.readInto(data, body, span); err != nil {
		p.r.buffers.put(data)
		return nil, err
	}
	return data, nil
}

func (p *packReader) readInto(data []byte, body io.Reader, span int32) error {
	done := p.r.times.fetch.begin()
	_, err := io.ReadFull(body, data)
	done()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s is cut short", ErrCorrupt, p.name)
	case err != nil:
		return fmt.Errorf("%w: %s: %w", errStore, p.name, err)
	case !p.r.times.spanIs(data, p.spans[span]):
		return fmt.Errorf("%w: %s is not what was written, from byte %d on", ErrCorrupt, p.name, int64(span)*spanSize)
	}
	return nil
}

func (p *packReader) finish(slots []*slot[spanID], err error) {
	for _, s := range slots {
		p.r.spans.finish(s, nil, err)
	}
}

// frame returns one decoded frame, which the caller releases.
func (r *Reader) frame(id frameID) (*slot[frameID], error) {
	s, mine, err := r.frames.own(id)
	if err != nil || !mine {
		return s, err
	}
	return r.fill(s)
}

// fill makes a frame that the caller has claimed.
func (r *Reader) fill(s *slot[frameID]) (*slot[frameID], error) {
	p := r.packs[s.key.pack]
	buf := r.buffers.get(int(p.frames[s.key.frame].pages * PageSize))
	data, err := p.decodeNumber(s.key.frame, buf)
	if err != nil || unsafe.SliceData(data) != unsafe.SliceData(buf) {
		r.buffers.put(buf)
	}
	r.frames.finish(s, data, err)
	if err != nil {
		r.frames.release(s)
		return nil, err
	}
	return s, nil
}

// frameAhead returns the decoded frame that has a page of its pack; the caller releases it. In
// the background it has the frames decoded that the image needs next, and the next pack fetched
// while this one is used. The error is errSpilled if the page was kept while its frame left the
// cache.
func (r *Reader) frameAhead(id frameID, page int64) (*slot[frameID], error) {
	p := r.packs[id.pack]
	p.ahead.Store(true)
	if p.next != nil && !p.wanted.Swap(true) {
		p.next.ahead.Store(true)
		r.background(func() { p.next.open() }) // its error is returned to the reader that needs it
	}
	s, mine := r.frames.claim(id)
	for _, next := range r.toPrefetch(id) {
		r.prefetch(next)
	}
	// It stays claimed meanwhile: a frame that is made and leaves the cache at once is seen.
	s, mine, err := r.frames.settle(s, mine)
	if err != nil || !mine {
		return s, err
	}
	if r.spill.page(id.pack, page) != nil {
		r.frames.finish(s, nil, errSpilled)
		r.frames.release(s)
		return nil, errSpilled
	}
	return r.fill(s)
}

// toPrefetch lists the frames that are needed soon. Each is listed once: one that has left the
// cache since is decoded when it is needed, if it is.
func (r *Reader) toPrefetch(id frameID) (ids []frameID) {
	at, planned := r.spot[id]
	if !planned {
		return nil
	}
	r.aheadMu.Lock()
	defer r.aheadMu.Unlock()
	for i := int(at) + 1; i < min(int(at)+1+aheadFrames*cap(r.cores), len(r.order)); i++ {
		if !r.listed[i] {
			r.listed[i] = true
			ids = append(ids, r.order[i])
		}
	}
	return ids
}

// aheadFrames is how many frames are decoded ahead for each core.
const aheadFrames = 3

func (r *Reader) prefetch(id frameID) {
	s, mine := r.frames.claim(id)
	if !mine {
		r.frames.release(s)
		return
	}
	r.packs[id.pack].ahead.Store(true)
	started := r.background(func() {
		r.cores <- struct{}{}
		if s, err := r.fill(s); err == nil {
			r.frames.release(s)
		}
		<-r.cores
	})
	if !started {
		r.frames.finish(s, nil, r.ctx.Err())
		r.frames.release(s)
	}
}
