package sparse

import (
	"bytes"
	"errors"
	"io"
	"os"
)

var zeros [64 << 10]byte

// Copy writes content into an empty file. Before it writes n bytes it asks room for them, if that
// isn't nil, and gives up with its error.
func Copy(f *os.File, content io.Reader, room func(n int64) error) (size int64, err error) {
	buf := make([]byte, len(zeros))
	for {
		n, err := io.ReadFull(content, buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if room != nil {
				if err := room(int64(n)); err != nil {
					return size, err
				}
			}
			if _, err := f.WriteAt(buf[:n], size); err != nil {
				return size, err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, f.Truncate(size)
		}
		if err != nil {
			return size, err
		}
	}
}
