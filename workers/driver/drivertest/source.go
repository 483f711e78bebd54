package drivertest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
)

var (
	_ driver.RandomReader = (*Image)(nil)
	_ driver.RandomReader = (*image.Reader)(nil)
)

// RandomSource is a driver.Source that is a driver.RandomReader.
type RandomSource interface {
	driver.Source
	driver.RandomReader
}

// CheckSource tries what the port promises of a source: each file reads the same from its
// beginning and at any offset, from several goroutines.
func CheckSource(t *testing.T, s RandomSource) {
	t.Helper()
	files := 0
	for _, e := range s.Entries() {
		if e.Type != image.TypeFile {
			if _, _, err := s.ReaderAt(e.Name); err == nil && e.Type != image.TypeHardlink {
				t.Errorf("the %s %s can be read", e.Type, e.Name)
			}
			continue
		}
		files++
		if err := checkFile(s, e); err != nil {
			t.Errorf("file %s: %v", e.Name, err)
		}
	}
	if files == 0 {
		t.Error("the image has no file")
	}
	if _, _, err := s.ReaderAt("there/is/no/such/file"); err == nil {
		t.Error("a file that isn't there can be read")
	}
}

func checkFile(s RandomSource, e image.Entry) error {
	in, err := s.Open(e.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	want, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	at, size, err := s.ReaderAt(e.Name)
	if err != nil {
		return err
	}
	if size != int64(len(want)) || size != e.Size {
		return errors.New("its size is another at random access")
	}
	var g errgroup.Group
	for _, piece := range pieces(size) {
		g.Go(func() error {
			b := make([]byte, piece.n)
			n, err := at.ReadAt(b, piece.off)
			if left := size - piece.off; left < piece.n { // as io.ReaderAt has it
				if n != int(left) || !errors.Is(err, io.EOF) {
					return errors.New("a read over its end doesn't stop there")
				}
			} else if err != nil && !errors.Is(err, io.EOF) || n != int(piece.n) {
				return errors.New("a read within it falls short")
			}
			if !bytes.Equal(b[:n], want[piece.off:piece.off+int64(n)]) {
				return errors.New("it reads otherwise at random access")
			}
			return nil
		})
	}
	return g.Wait()
}

type piece struct{ off, n int64 }

// pieces gives ranges of a file: its ends, its middle, across pages, and all of it.
func pieces(size int64) []piece {
	all := []piece{{0, size}, {0, min(size, 1)}, {size / 2, size}, {size, 1}, {max(size-1, 0), 2}}
	for off := int64(image.PageSize - 1); off+2 <= size; off += max(size/7, image.PageSize) {
		all = append(all, piece{off, 2})
	}
	return all
}

func testRandomAccess(b *bench) {
	b.start("a")
	CheckSource(b.t, b.capture(Fence("a", 2)))
	b.stop(Fence("a", 2))
}
