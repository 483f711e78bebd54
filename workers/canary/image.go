package canary

import (
	"bytes"
	"fmt"
	"io"

	"github.com/diapause/diapause/objectstore/image"
)

// memoryImage keeps in memory what a driver captured.
type memoryImage struct {
	entries []image.Entry
	content map[string][]byte
	bytes   int64 // content of all files
}

// Add implements driver.Sink.
func (m *memoryImage) Add(e image.Entry, r io.Reader) error {
	if e.Type == image.TypeFile {
		b, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Name, err)
		}
		if e.Size >= 0 && e.Size != int64(len(b)) {
			return fmt.Errorf("%s has %d bytes, not %d", e.Name, len(b), e.Size)
		}
		e.Size = int64(len(b))
		m.content[e.Name] = b
		m.bytes += e.Size
	}
	m.entries = append(m.entries, e)
	return nil
}

// Entries implements driver.Source.
func (m *memoryImage) Entries() []image.Entry { return m.entries }

// Open implements driver.Source.
func (m *memoryImage) Open(name string) (io.ReadCloser, error) {
	b, ok := m.content[name]
	if !ok {
		return nil, fmt.Errorf("the canary's image has no file %s", name)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}
