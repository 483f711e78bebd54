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

// segment returns what lies in one piece at an offset below the size: data of a
// frame, or n zeros where data is nil.
func (f *file) segment(off int64, frame func(frameID, int64) ([]byte, error)) (data []byte, n int64, err error) {
	if err := f.r.ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("read %q of %s: %w", f.name, f.r.head.Name, err)
	}
	page := off / PageSize
	i := f.runAt(page)
	u := f.runs[i]
	within := off - f.starts[i]*PageSize
	n = min(u[2]*PageSize-within, f.size-off)
	if u[0] == zeroPack {
		return nil, n, nil
	}
	p := f.r.packs[u[0]]
	at := u[1] + within/PageSize // the page's place in the pack
	j := p.frameOf(at)
	for {
		if data := f.r.spill.page(p.number, at); data != nil {
			n = min(n, PageSize-within%PageSize)
			return data[within%PageSize:][:n], n, nil
		}
		data, err = frame(frameID{p.number, int32(j)}, at)
		if !errors.Is(err, errSpilled) {
			break
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %q of %s: %w", f.name, f.r.head.Name, err)
	}
	data = data[(at-p.frames[j].page)*PageSize+within%PageSize:]
	n = min(n, int64(len(data)))
	return data[:n], n, nil
}

// runAt finds the run that holds a page of the file.
func (f *file) runAt(page int64) int {
	return sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > page }) - 1
}

func (f *file) readAt(b []byte, off int64, frame func(frameID, int64) ([]byte, error)) (n int, err error) {
	for n < len(b) {
		if off >= f.size {
			return n, io.EOF
		}
		data, m, err := f.segment(off, frame)
		if err != nil {
			return n, err
		}
		if data == nil {
			m = min(m, int64(len(b)-n))
			clear(b[n : n+int(m)])
		} else {
			m = int64(copy(b[n:], data))
		}
		n, off = n+int(m), off+m
	}
	return n, nil
}

// ReadAt implements io.ReaderAt. It decodes what it needs and nothing ahead.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %q: negative offset", f.name)
	}
	return f.readAt(b, off, func(id frameID, _ int64) ([]byte, error) { return f.r.frame(id) })
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

func (s *stream) WriteTo(w io.Writer) (written int64, err error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	few := bufio.NewWriterSize(w, 64<<10) // scattered pages go together, frames past it
	defer func() { err = errors.Join(err, few.Flush()) }()
	for s.pos < s.file.size {
		data, n, err := s.file.segment(s.pos, s.file.r.frameAhead)
		if err != nil {
			return written, err
		}
		if data == nil {
			data = zeroBlock[:min(n, int64(len(zeroBlock)))]
		}
		m, err := few.Write(data)
		written += int64(m)
		s.passed(int64(m))
		if err != nil {
			return written, err
		}
	}
	return written, nil
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
	for i := f.runAt(first); first < end; i++ {
		u := f.runs[i]
		within := first - f.starts[i]
		count := min(u[2]-within, end-first)
		if u[0] != zeroPack {
			f.r.spill.used(int32(u[0]), u[1]+within, count)
		}
		first += count
	}
}

func (s *stream) Close() error {
	s.closed = true
	return nil
}
