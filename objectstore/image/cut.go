package image

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// read cuts the content that r gives into pages, and returns its size.
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
	if w.chunk == nil {
		w.chunk = make([]byte, chunkSize)
	}
	holes, _ := r.(HoleSkipper)
	var pos int64
	for {
		skipped, err := w.skip(x, holes)
		if err != nil {
			return 0, err
		}
		n, err := io.ReadFull(r, w.chunk)
		if pos += skipped + int64(n); pos > want {
			return 0, fmt.Errorf("it gave more than %d bytes", want)
		}
		if addErr := w.cut(x, w.chunk[:n]); addErr != nil {
			return 0, addErr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
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

// skip passes over a hole.
func (w *Writer) skip(x *extents, holes HoleSkipper) (int64, error) {
	if holes == nil {
		return 0, nil
	}
	n, err := holes.SkipHole()
	if err != nil || n == 0 {
		return 0, err
	}
	if n < 0 || n%PageSize != 0 || n > maxFile {
		return 0, fmt.Errorf("a hole of %d bytes is not one of whole pages", n)
	}
	w.addZeros(x, n/PageSize)
	return n, nil
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

// cut adds the pages of data, of which the last may be short.
func (w *Writer) cut(x *extents, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), PageSize)
		page := data[:n]
		data = data[n:]
		if isZero(page) {
			w.addZeros(x, 1)
			continue
		}
		if n < PageSize {
			page = append(make([]byte, 0, PageSize), page...)[:PageSize]
		}
		if err := w.addPage(x, page); err != nil {
			return err
		}
	}
	return nil
}

// addPage refers to the page where it is known, or else puts it into the frame.
func (w *Writer) addPage(x *extents, page []byte) error {
	w.stats.Pages++
	id := w.hasher.id(page)
	number, ok := w.known[id]
	if !ok && w.base != nil {
		number, ok = w.base.ids[id]
	}
	if ok {
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
	w.frame.raw = append(w.frame.raw, page...)
	w.frame.ids = append(w.frame.ids, id)
	w.known[id] = w.next
	x.add(w.next, 1)
	w.next++
	w.stats.NewBytes += PageSize
	if len(w.frame.ids) == w.opts.cuts.frame {
		w.flush()
	}
	return nil
}

func (w *Writer) flush() {
	if w.frame != nil {
		w.packer.submit(w.frame)
		w.frame = nil
	}
}
