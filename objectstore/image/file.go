package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// file is the content of one entry.
type file struct {
	r      *Reader
	name   string
	size   int64
	runs   []run
	starts []int64 // first page of each run within the file
}

func (r *Reader) file(name string) (*file, error) {
	i, ok := r.byName[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s has no entry %q", ErrNotFound, r.head.Name, name)
	}
	e := r.index.entries[i]
	if e.Type == TypeHardlink {
		return r.file(e.Link)
	}
	if e.Type != TypeFile {
		return nil, fmt.Errorf("open %q in %s: a %s has no content", name, r.head.Name, e.Type)
	}
	return r.fileAt(i), nil
}

// fileAt gives the content of an entry that is a file.
func (r *Reader) fileAt(i int) *file {
	e := r.index.entries[i]
	f := &file{r: r, name: e.Name, size: e.Size, runs: r.index.runs[i]}
	f.starts = make([]int64, len(f.runs))
	var page int64
	for j, u := range f.runs {
		f.starts[j] = page
		page += u[2]
	}
	return f
}

// getFrame gives the frame that has a page of its pack, which the caller releases.
type getFrame func(id frameID, page int64) (*slot[frameID], error)

// segment is what lies in one piece: data, or n zeros where that is nil.
type segment struct {
	data []byte
	n    int64
	from *slot[frameID] // that has the data until it is released; nil if it is another's
}

// segment returns what lies in one piece at an offset below the size.
func (f *file) segment(off int64, frame getFrame) (g segment, err error) {
	if err := f.r.ctx.Err(); err != nil {
		return g, fmt.Errorf("read %q of %s: %w", f.name, f.r.head.Name, err)
	}
	page := off / PageSize
	i := f.runAt(page)
	u := f.runs[i]
	within := off - f.starts[i]*PageSize
	g.n = min(u[2]*PageSize-within, f.size-off)
	if u[0] == zeroPack {
		return g, nil
	}
	p := f.r.packs[u[0]]
	at := u[1] + within/PageSize // the page's place in the pack
	j := p.frameOf(at)
	for {
		if data := f.r.spill.page(p.number, at); data != nil {
			g.n = min(g.n, PageSize-within%PageSize)
			g.data = data[within%PageSize:][:g.n]
			return g, nil
		}
		g.from, err = frame(frameID{p.number, int32(j)}, at)
		if !errors.Is(err, errSpilled) {
			break
		}
	}
	if err != nil {
		return g, fmt.Errorf("read %q of %s: %w", f.name, f.r.head.Name, err)
	}
	data := g.from.data[(at-p.frames[j].page)*PageSize+within%PageSize:]
	g.n = min(g.n, int64(len(data)))
	g.data = data[:g.n]
	return g, nil
}

// runAt finds the run that holds a page of the file.
func (f *file) runAt(page int64) int {
	return sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > page }) - 1
}

func (f *file) readAt(b []byte, off int64, frame getFrame) (n int, err error) {
	for n < len(b) {
		if off >= f.size {
			return n, io.EOF
		}
		g, err := f.segment(off, frame)
		if err != nil {
			return n, err
		}
		m := min(g.n, int64(len(b)-n))
		if g.data == nil {
			clear(b[n : n+int(m)])
		} else {
			copy(b[n:], g.data[:m])
		}
		f.r.frames.release(g.from)
		n, off = n+int(m), off+m
	}
	return n, nil
}

// ReadAt implements io.ReaderAt. It decodes what it needs and nothing ahead.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %q: negative offset", f.name)
	}
	return f.readAt(b, off, func(id frameID, _ int64) (*slot[frameID], error) { return f.r.frame(id) })
}

// ReaderAt returns an entry's content for reading anywhere, and its size. What is
// read is decoded in frames of a MiB, of which the last ones used are kept.
func (r *Reader) ReaderAt(name string) (io.ReaderAt, int64, error) {
	f, err := r.file(name)
	if err != nil {
		return nil, 0, err
	}
	return f, f.size, nil
}

// Open returns an entry's content for reading from its beginning, decoding ahead.
// Reading all entries in their order is what it is fastest at. The reader also
// implements io.WriterTo, which saves a copy.
func (r *Reader) Open(name string) (io.ReadCloser, error) {
	f, err := r.file(name)
	if err != nil {
		return nil, err
	}
	return &stream{file: f}, nil
}

// stream reads a file from its beginning.
type stream struct {
	file   *file
	pos    int64
	closed bool
}

func (s *stream) Read(b []byte) (int, error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	n, err := s.file.readAt(b, s.pos, s.file.r.frameAhead)
	s.passed(int64(n))
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// zeroBlock is what zeros are written from.
var zeroBlock [64 << 10]byte

// Borrower is a writer that need not copy what it is given: for WriteTo of what Open returns.
type Borrower interface {
	io.Writer
	// Borrow is Write for data that stays as it is until done is called, with whether
	// a reader may still look at it: then it stays for ever. It calls done in any case.
	Borrow(data []byte, done func(inUse bool)) (int, error)
}

// borrowed is what is worth to be borrowed, in bytes: less is put together by copying.
const borrowed = 64 << 10

func (s *stream) WriteTo(w io.Writer) (written int64, err error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	few := bufio.NewWriterSize(w, 64<<10) // scattered pages go together, frames past it
	defer func() { err = errors.Join(err, few.Flush()) }()
	to, borrows := w.(Borrower)
	for s.pos < s.file.size {
		g, err := s.file.segment(s.pos, s.file.r.frameAhead)
		if err != nil {
			return written, err
		}
		if g.data == nil {
			g.data = zeroBlock[:min(g.n, int64(len(zeroBlock)))]
		}
		var m int
		if borrows && len(g.data) >= borrowed && g.from != nil && s.file.r.buffers.lendable(g.from.data) {
			if err = few.Flush(); err == nil {
				m, err = s.lend(to, g)
			} else {
				s.file.r.frames.release(g.from)
			}
		} else {
			m, err = few.Write(g.data)
			s.file.r.frames.release(g.from)
		}
		written += int64(m)
		s.passed(int64(m))
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (s *stream) lend(to Borrower, g segment) (int, error) {
	frames := s.file.r.frames
	return to.Borrow(g.data, func(inUse bool) {
		if inUse {
			frames.discard(g.from)
		} else {
			frames.release(g.from)
		}
	})
}

// passed moves the position on, and counts the pages that end before it as used.
func (s *stream) passed(n int64) {
	f, before := s.file, s.pos
	s.pos += n
	if f.r.spill == nil {
		return
	}
	first, end := before/PageSize, s.pos/PageSize
	if s.pos == f.size {
		end = pages(f.size)
	}
	for i := f.runAt(first); first < end; {
		u := f.runs[i]
		within := first - f.starts[i]
		if within == u[2] {
			i++
			continue
		}
		count := min(u[2]-within, end-first)
		if u[0] != zeroPack {
			count = f.r.used(f.r.packs[u[0]], u[1]+within, count)
		}
		first += count
	}
}

// used counts pages of a pack as used, as many of them as are in one frame, and gives how many
// these are. A frame of which all are used leaves the cache.
func (r *Reader) used(p *packReader, page, count int64) int64 {
	id := frameID{p.number, int32(p.frameOf(page))}
	f := p.frames[id.frame]
	count = min(count, f.page+f.pages-page)
	if r.spill.used(id, page, count) {
		r.frames.drop(id)
	}
	return count
}

func (s *stream) Close() error {
	s.closed = true
	return nil
}
