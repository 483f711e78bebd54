package image

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// HoleSkipper may be implemented by the reader that Add gets: content with holes
// is then written without reading them.
type HoleSkipper interface {
	// SkipHole is called between reads, at a multiple of PageSize from the start.
	// It skips zeros at the current position, a multiple of PageSize of them, and
	// returns how many bytes that was; 0 where data follows or it isn't known.
	SkipHole() (int64, error)
}

// SparseFile reads a file from its start, and knows its holes where the file
// system does. The file's own position is moved.
func SparseFile(f *os.File) (io.Reader, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return &sparseFile{f: f}, nil
}

type sparseFile struct {
	f   *os.File
	pos int64
}

func (s *sparseFile) Read(p []byte) (int, error) {
	n, err := s.f.Read(p)
	s.pos += int64(n)
	return n, err
}

// seekData is SEEK_DATA of lseek(2).
const seekData = 3

func (s *sparseFile) SkipHole() (int64, error) {
	next, err := s.f.Seek(s.pos, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO): // a hole up to the end, or the end
		if next, err = s.f.Seek(0, io.SeekEnd); err != nil {
			return 0, err
		}
	case errors.Is(err, syscall.EINVAL): // the file system knows no holes
		next = s.pos
	case err != nil:
		return 0, err
	}
	skip := max(next-s.pos, 0) / PageSize * PageSize
	s.pos += skip
	_, err = s.f.Seek(s.pos, io.SeekStart)
	return skip, err
}
