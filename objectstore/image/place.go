package image

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Target says where the content of an entry belongs.
type Target struct {
	Name string
	// To reads as zeros before, and zero pages aren't written. It has parts of the content
	// written by several goroutines, in any order.
	To io.WriterAt
}

// piece is a stretch of a frame's pages that a target needs.
type piece struct {
	id     frameID
	page   uint16 // within the frame
	count  uint16
	target int32
	at     uint32 // page of the target
}

// Place writes the contents of entries to where they belong. It goes through the packs and
// not through the entries, so that each frame is fetched and decoded once, however the
// entries are scattered over the packs. Beside the reader's caches it holds a frame for each
// core, and 20 bytes for each run of pages.
func (r *Reader) Place(ctx context.Context, targets []Target) error {
	pieces, sizes, err := r.pieces(targets)
	if err != nil {
		return err
	}
	var jobs [][]piece // by frame, in the order of the packs
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].id == pieces[0].id {
			n++
		}
		jobs = append(jobs, pieces[:n])
		pieces = pieces[n:]
	}
	w := r.newWindow(jobs)
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, w.stop)()
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			var buf []byte
			for {
				job, ok := w.take()
				if !ok {
					return ctx.Err()
				}
				s, data, err := r.frameOnce(jobs[job][0].id, &buf)
				if err == nil {
					err = r.put(jobs[job], data, targets, sizes)
				}
				r.frames.release(s)
				if err != nil {
					return err
				}
				w.finish(job)
			}
		})
	}
	return g.Wait()
}

// pieces lists what the targets need, by place in the packs, and the targets' sizes.
func (r *Reader) pieces(targets []Target) (all []piece, sizes []int64, err error) {
	for i, t := range targets {
		f, err := r.file(t.Name)
		if err != nil {
			return nil, nil, err
		}
		sizes = append(sizes, f.size)
		f.stretches(func(id frameID, page, count, at int64) {
			all = append(all, piece{id: id, page: uint16(page), count: uint16(count), target: int32(i), at: uint32(at)})
		})
	}
	slices.SortFunc(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.id.pack, b.id.pack), cmp.Compare(a.id.frame, b.id.frame),
			cmp.Compare(a.target, b.target), cmp.Compare(a.at, b.at))
	})
	return all, sizes, nil
}

// stretches calls fn for each stretch of the file's pages that lies in one frame: at is its
// place in the file. Zero pages have none.
func (f *file) stretches(fn func(id frameID, page, count, at int64)) {
	for i, u := range f.runs {
		if u[0] == zeroPack {
			continue
		}
		p := f.r.packs[u[0]]
		at, page, left := f.starts[i], u[1], u[2]
		for j := p.frameOf(page); left > 0; j++ {
			within := page - p.frames[j].page
			n := min(left, p.frames[j].pages-within)
			fn(frameID{p.number, int32(j)}, within, n, at)
			at, page, left = at+n, page+n, left-n
		}
	}
}

// frameOnce returns a decoded frame: out of the cache if it is there, and then the caller
// releases the slot; else in a buffer of the caller's that is used again.
func (r *Reader) frameOnce(id frameID, buf *[]byte) (*slot[frameID], []byte, error) {
	if s := r.frames.peek(id); s != nil {
		if data, err := s.wait(); err == nil {
			return s, data, nil
		}
		r.frames.release(s)
	}
	p := r.packs[id.pack]
	data, err := p.decodeNumber(id.frame, (*buf)[:0])
	if err == nil {
		*buf = data
	}
	return nil, data, err
}

// put writes a frame's pages to where they belong.
func (r *Reader) put(job []piece, data []byte, targets []Target, sizes []int64) error {
	for _, p := range job {
		off := int64(p.at) * PageSize
		n := min(int64(p.count)*PageSize, sizes[p.target]-off)
		from := int64(p.page) * PageSize
		if _, err := targets[p.target].To.WriteAt(data[from:from+n], off); err != nil {
			return fmt.Errorf("restore %q: %w", targets[p.target].Name, err)
		}
	}
	return nil
}
