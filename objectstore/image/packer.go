package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// packer turns frames of pages into packs in the store: frames are compressed on
// all cores, put in order into the pack being built, which is encrypted as it
// grows, and finished packs go to the store while the next one grows.
//
// What waits between the stages is bounded by the buffers: frames by free,
// packs by packBuffers.
type packer struct {
	store     objectstore.Store
	place     lineage
	kid       string
	recipient age.Recipient
	key       hashKey
	cuts      cuts
	dense     bool // all pages are searched for repeats
	cores     cores

	group  *errgroup.Group
	ctx    context.Context // ends with the first failure
	zstd   *zstd.Encoder
	free   chan *frameJob // frames to be filled
	chunks chan *chunk    // to be hashed
	jobs   chan *frameJob // to be compressed
	order  chan *frameJob // the same, in the order of the pack
	bufs   chan *packBuf  // free buffers for packs

	packs  []*packOut // the assembler's, until finish has returned
	closed sync.Once

	mu    sync.Mutex
	names []string // of all objects that may have come into the store

	compress, encrypt, storing atomic.Int64 // nanoseconds
	stored                     atomic.Int64 // bytes
}

// packBuffers is the number of packs in memory: one that grows, the others on
// their way to the store.
const packBuffers = 3

// packMargin is room for age's header and tags in a pack.
const packMargin = 64 << 10

// frameJob is one frame on its way through compression, used again and again.
type frameJob struct {
	raw, out []byte
	ids      []pageID
	done     chan struct{} // takes one value when out is set
}

// packOut is one pack, first growing, then stored.
type packOut struct {
	schemas.ImagePack
	index indexPack
	buf   *packBuf // until it is stored
	age   io.WriteCloser
}

// packBuf is what a pack takes while it is in memory, used again and again.
type packBuf struct {
	bytes.Buffer // as stored
	ids          []pageID
	plain        []byte // the ids as they are encrypted
}

func newPacker(ctx context.Context, store objectstore.Store, place lineage, kid string, to age.Recipient, key hashKey, c cuts, dense bool) (*packer, error) {
	cores := runtime.GOMAXPROCS(0)
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(cores),
		zstd.WithWindowSize(chunkSize), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("start compression: %w", err)
	}
	p := &packer{store: store, place: place, kid: kid, recipient: to, key: key, cuts: c, dense: dense, zstd: z}
	p.chunks = make(chan *chunk, chunks())
	frames := 2*cores + 1
	p.free, p.jobs, p.order = make(chan *frameJob, frames), make(chan *frameJob, frames), make(chan *frameJob, frames)
	for range frames {
		p.free <- &frameJob{done: make(chan struct{}, 1)}
	}
	p.bufs = make(chan *packBuf, packBuffers)
	for range packBuffers {
		p.bufs <- nil
	}
	p.group, p.ctx = errgroup.WithContext(ctx)
	for range cores {
		p.group.Go(p.hasher)
		p.group.Go(p.compressor)
	}
	p.group.Go(p.assembler)
	return p, nil
}

// frame gives an empty frame, when one is free.
func (p *packer) frame() (*frameJob, error) {
	select {
	case job := <-p.free:
		job.raw, job.ids = job.raw[:0], job.ids[:0]
		return job, nil
	case <-p.ctx.Done():
		return nil, p.failure()
	}
}

// smallFrame is the room that a frame has at first, in bytes: most images of small
// sessions need no more.
const smallFrame = 64 << 10

// add appends a page. A frame that outgrows the room it has gets at once as much as it
// ever takes, and keeps it.
func (p *packer) add(job *frameJob, id pageID, page []byte) {
	if need := len(job.raw) + len(page); need > cap(job.raw) {
		size := p.cuts.frame * PageSize
		if need <= smallFrame {
			size = min(size, smallFrame)
		}
		job.raw = append(make([]byte, 0, size), job.raw...)
		job.out = make([]byte, 0, size+size/64)
	}
	job.raw, job.ids = append(job.raw, page...), append(job.ids, id)
}

// submit hands a filled frame over. It never blocks: the channels have room for
// all frames that there are.
func (p *packer) submit(job *frameJob) {
	p.order <- job
	p.jobs <- job
}

// finish stores what is left and waits until all packs are durable, or the first
// failure has stopped everything.
func (p *packer) finish() ([]*packOut, error) {
	p.closed.Do(func() { close(p.chunks); close(p.jobs); close(p.order) })
	if err := p.group.Wait(); err != nil {
		return nil, err
	}
	return p.packs, nil
}

// release gives back the buffers, after finish.
func (p *packer) release() { p.free, p.jobs, p.order, p.bufs, p.zstd = nil, nil, nil, nil, nil }

// failure is called after the context has ended: it waits for the cause.
func (p *packer) failure() error {
	if _, err := p.finish(); err != nil {
		return err
	}
	return context.Cause(p.ctx)
}

func (p *packer) hasher() error {
	h := newHasher(p.key)
	for {
		select {
		case c, ok := <-p.chunks:
			if !ok {
				return nil
			}
			c.hash(h)
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}

func (p *packer) compressor() error {
	var fast entropyCoder
	for {
		select {
		case job, ok := <-p.jobs:
			if !ok {
				return nil
			}
			begin := time.Now()
			if p.dense || len(p.bufs) == 0 && p.cores.spare() || p.repetitive(job) {
				job.out = p.zstd.EncodeAll(job.raw, job.out[:0])
			} else {
				job.out = fast.encode(job.raw, job.out[:0])
			}
			p.compress.Add(int64(time.Since(begin)))
			job.done <- struct{}{}
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}

// A search for repeats is as fast as anything where it finds long ones. Where it
// doesn't, it takes most of the time of an image, so for those frames it is
// left out unless everything waits for the store while cores have nothing to do.
const (
	sampleSize  = 8 << 10 // bytes at two places of a frame
	sampleRatio = 3       // what they must shrink to, one in so many
)

// repetitive finds out by samples whether a frame has many repeats.
func (p *packer) repetitive(job *frameJob) bool {
	if len(job.raw) <= 4*sampleSize {
		return true
	}
	var coded int
	for _, at := range []int{0, len(job.raw) / 2 / PageSize * PageSize} {
		job.out = p.zstd.EncodeAll(job.raw[at:at+sampleSize], job.out[:0])
		coded += len(job.out)
	}
	return coded*sampleRatio <= 2*sampleSize
}

// assembler puts frames into packs, in order.
func (p *packer) assembler() error {
	var pack *packOut
	for job := range p.order {
		select {
		case <-job.done:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
		if pack == nil {
			var err error
			if pack, err = p.begin(); err != nil {
				return err
			}
		}
		if err := p.grow(pack, job); err != nil {
			return err
		}
		p.free <- job
		if int64(pack.buf.Len()) >= p.cuts.bytes || pack.Pages >= p.cuts.pages {
			p.end(pack)
			pack = nil
		}
	}
	if pack != nil {
		p.end(pack)
	}
	return nil
}

// begin starts a pack when a buffer for it is free.
func (p *packer) begin() (*packOut, error) {
	var buf *packBuf
	select {
	case buf = <-p.bufs:
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
	if buf == nil {
		buf = &packBuf{}
		buf.Grow(2 * packMargin) // all that a small image takes
	}
	buf.Reset()
	buf.ids = buf.ids[:0]
	w, err := age.Encrypt(&buf.Buffer, p.recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypt pack: %w", err)
	}
	pack := &packOut{buf: buf, age: w}
	pack.Name, pack.KID = randomName(), p.kid
	pack.index.Pack = pack.Name
	p.packs = append(p.packs, pack)
	return pack, nil
}

func (p *packer) grow(pack *packOut, job *frameJob) error {
	begin := time.Now()
	if pack.buf.Cap() < pack.buf.Len()+len(job.out)+packMargin {
		// At once as large as it gets, so that it never doubles.
		pack.buf.Grow(int(p.cuts.bytes) + p.cuts.frame*PageSize + packMargin - pack.buf.Len())
	}
	// A writer that has failed is left alone: closing it would seal what is there
	// as if it were whole.
	if _, err := pack.age.Write(job.out); err != nil {
		return fmt.Errorf("encrypt pack: %w", err)
	}
	p.encrypt.Add(int64(time.Since(begin)))
	count := int64(len(job.raw)) / PageSize
	pack.index.Frames = append(pack.index.Frames, [2]int64{int64(len(job.out)), count})
	pack.buf.ids = append(pack.buf.ids, job.ids...)
	pack.Pages += count
	return nil
}

// end sends a pack on its way to the store. The goroutines that do so are as many
// as there are buffers.
func (p *packer) end(pack *packOut) {
	p.group.Go(func() error {
		if err := p.seal(pack); err != nil {
			return err
		}
		if err := p.put(p.place.pack(pack.Name), pack.buf.Bytes()); err != nil {
			return err
		}
		if err := p.putIDs(pack); err != nil {
			return err
		}
		p.bufs <- pack.buf
		pack.buf, pack.age = nil, nil
		return nil
	})
}

func (p *packer) seal(pack *packOut) error {
	begin := time.Now()
	if err := pack.age.Close(); err != nil {
		return fmt.Errorf("encrypt pack: %w", err)
	}
	data := pack.buf.Bytes()
	pack.Size = int64(len(data))
	for len(data) > 0 {
		n := min(len(data), spanSize)
		pack.index.Spans = append(pack.index.Spans, spanDigest(data[:n]))
		data = data[n:]
	}
	pack.ImagePack.Spans = spansDigest(pack.index.Spans)
	p.encrypt.Add(int64(time.Since(begin)))
	return nil
}

// idsHead is the first line of a pack's ids; the ids follow it, 16 bytes each.
type idsHead struct {
	IDs   int    `json:"ids"` // 1
	Pages int64  `json:"pages"`
	Key   []byte `json:"key"` // the lineage's hash key
}

func (p *packer) putIDs(pack *packOut) error {
	line, err := json.Marshal(idsHead{1, pack.Pages, p.key[:]})
	if err != nil {
		return fmt.Errorf("encode page ids: %w", err)
	}
	plain := append(append(pack.buf.plain[:0], line...), '\n')
	for _, id := range pack.buf.ids {
		plain = append(plain, id[:]...)
	}
	pack.buf.plain = plain
	data, err := encrypt(plain, p.recipient)
	if err != nil {
		return fmt.Errorf("encrypt page ids: %w", err)
	}
	pack.IDs = objectOf(data)
	return p.put(p.place.ids(pack.Name), data)
}

// put stores one object and remembers its name, even if it fails.
func (p *packer) put(name string, data []byte) error {
	p.mu.Lock()
	p.names = append(p.names, name)
	p.mu.Unlock()
	begin := time.Now()
	err := p.store.Put(p.ctx, name, bytes.NewReader(data), int64(len(data)))
	p.storing.Add(int64(time.Since(begin)))
	if err != nil {
		return fmt.Errorf("store image: %w", err)
	}
	p.stored.Add(int64(len(data)))
	return nil
}
