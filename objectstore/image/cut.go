package image

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
)

// chunk is a stretch of a file on its way through hashing, used again and again.
type chunk struct {
	hole int64    // pages of zeros before it
	buf  []byte   // as large as a small file, or as a chunk gets
	data []byte   // of buf: whole pages, the last one filled up with zeros
	ids  []pageID // of these; the zero id for a page of zeros
	done chan struct{}
}

// chunks is how many of them there are: one to be read into, one for each core to
// hash, one to be matched.
func chunks() int { return runtime.GOMAXPROCS(0) + 2 }

// inline is the content, in bytes, up to which hashing isn't worth another
// goroutine.
const inline = 64 << 10

// read cuts the content that r gives into pages, and returns its size. It reads
// ahead while what it has read is hashed on all cores, and matched in order.
func (w *Writer) read(x *extents, r io.Reader, size int64) (int64, error) {
	if r == nil {
		r = eof{}
	}
	if size < -1 || size > maxFile {
		return 0, fmt.Errorf("a size of %d bytes", size)
	}
	want := size
	if want < 0 {
		want = maxFile
	}
	var pos int64
	for end := false; !end; {
		c, err := w.chunk(x)
		if err != nil {
			return 0, err
		}
		var n int64
		if n, end, err = c.fill(r); err != nil {
			return 0, err
		}
		w.taken.Add(n)
		if pos += n; pos > want {
			return 0, fmt.Errorf("it gave more than %d bytes", want)
		}
		if len(c.data) > inline {
			w.packer.chunks <- c // it has room for all chunks that there are
		} else {
			c.hash(w.hasher)
		}
		w.pending = append(w.pending, c)
	}
	for len(w.pending) > 0 {
		if err := w.match(x); err != nil {
			return 0, err
		}
	}
	if size >= 0 && pos != size {
		return 0, fmt.Errorf("it gave %d bytes instead of %d", pos, size)
	}
	return pos, nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// chunk gives a chunk that isn't in use.
func (w *Writer) chunk(x *extents) (*chunk, error) {
	if len(w.pending) == chunks() {
		if err := w.match(x); err != nil {
			return nil, err
		}
	}
	if n := len(w.spare); n > 0 {
		c := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return c, nil
	}
	return &chunk{buf: make([]byte, inline), done: make(chan struct{}, 1)}, nil
}

// fill reads what comes next. It returns how many bytes of the file that is, and
// whether there is no more.
func (c *chunk) fill(r io.Reader) (size int64, end bool, err error) {
	hole, err := skip(r)
	if err != nil {
		return 0, false, err
	}
	c.hole = hole / PageSize
	n, err := io.ReadFull(r, c.buf)
	if err == nil && n < chunkSize {
		c.buf = append(make([]byte, 0, chunkSize), c.buf...)[:chunkSize]
		var more int
		more, err = io.ReadFull(r, c.buf[n:])
		n += more
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		end, err = true, nil
	}
	whole := int(pages(int64(n)) * PageSize)
	clear(c.buf[n:whole])
	c.data = c.buf[:whole]
	return hole + int64(n), end, err
}

// skip passes over a hole, if the reader knows of one.
func skip(r io.Reader) (int64, error) {
	holes, ok := r.(HoleSkipper)
	if !ok {
		return 0, nil
	}
	n, err := holes.SkipHole()
	if err == nil && (n < 0 || n%PageSize != 0 || n > maxFile) {
		err = fmt.Errorf("a hole of %d bytes is not one of whole pages", n)
	}
	return n, err
}

// hash finds the ids of the pages.
func (c *chunk) hash(h hasher) {
	c.ids = c.ids[:0]
	for at := 0; at < len(c.data); at += PageSize {
		var id pageID
		if page := c.data[at : at+PageSize]; !isZero(page) {
			id = h.id(page)
		}
		c.ids = append(c.ids, id)
	}
	c.done <- struct{}{}
}

// match adds the pages of the oldest chunk that is under way.
func (w *Writer) match(x *extents) error {
	c := w.pending[0]
	select {
	case <-c.done:
	case <-w.packer.ctx.Done():
		return w.packer.failure()
	}
	w.pending = append(w.pending[:0], w.pending[1:]...)
	w.addZeros(x, c.hole)
	for i, id := range c.ids {
		if id == (pageID{}) {
			w.addZeros(x, 1)
		} else if err := w.addPage(x, id, c.data[i*PageSize:(i+1)*PageSize]); err != nil {
			return err
		}
	}
	w.spare = append(w.spare, c)
	return nil
}

func (w *Writer) addZeros(x *extents, count int64) {
	w.stats.Pages += count
	w.stats.ZeroPages += count
	for count > 0 {
		n := min(count, math.MaxUint32)
		x.add(zeros, uint32(n))
		count -= n
	}
}

// addPage refers to the page where it is known, or else puts it into the frame.
func (w *Writer) addPage(x *extents, id pageID, page []byte) error {
	w.stats.Pages++
	if number, ok := w.find(id); ok {
		w.stats.MatchedPages++
		x.add(number, 1)
		return nil
	}
	if w.next >= maxNumber {
		return errors.New("the lineage has no more page numbers: write a full image")
	}
	if w.frame == nil {
		var err error
		if w.frame, err = w.packer.frame(); err != nil {
			return err
		}
	}
	w.packer.add(w.frame, id, page)
	w.known.add(id)
	x.add(w.next, 1)
	w.next++
	w.stats.NewBytes += PageSize
	if len(w.frame.ids) == w.opts.cuts.frame {
		w.flush()
	}
	return nil
}

// find gives the number of a page that is stored already, or about to be.
func (w *Writer) find(id pageID) (uint32, bool) {
	var first uint32
	if w.base != nil {
		if number, ok := w.base.find(id, w.opts.Budget); ok {
			return number, true
		}
		first = w.base.total
	}
	number, ok := w.known.find(id)
	return first + number, ok
}

func (w *Writer) flush() {
	if w.frame != nil {
		w.packer.submit(w.frame)
		w.frame = nil
	}
}
