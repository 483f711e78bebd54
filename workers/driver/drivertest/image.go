package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/diapause/diapause/objectstore/image"
)

// Image keeps what a driver captured: a driver.Sink and a driver.Source.
type Image struct {
	// Fail, if set, is asked before each entry is added.
	Fail func(image.Entry) error

	entries []image.Entry
	content map[string][]byte
}

// Add implements driver.Sink, and is as strict as a real one.
func (m *Image) Add(e image.Entry, r io.Reader) error {
	if m.Fail != nil {
		if err := m.Fail(e); err != nil {
			return err
		}
	}
	if m.content == nil {
		m.content = make(map[string][]byte)
	}
	if _, ok := m.content[e.Name]; ok {
		return fmt.Errorf("entry %s was added twice", e.Name)
	}
	var b []byte
	if e.Type == image.TypeFile {
		var err error
		if b, err = io.ReadAll(r); err != nil {
			return err
		}
		if e.Size == -1 {
			e.Size = int64(len(b))
		}
	}
	if int64(len(b)) != e.Size {
		return fmt.Errorf("entry %s has %d bytes of content, and says %d", e.Name, len(b), e.Size)
	}
	m.content[e.Name] = b
	m.entries = append(m.entries, e)
	return nil
}

// Entries implements driver.Source.
func (m *Image) Entries() []image.Entry { return m.entries }

// Open implements driver.Source.
func (m *Image) Open(name string) (io.ReadCloser, error) {
	b, ok := m.content[name]
	if !ok {
		return nil, fmt.Errorf("the image has no file %s", name)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Place writes files as *image.Reader does: in parts without those that are zero, and in no
// order that they have.
func (m *Image) Place(_ context.Context, targets []image.Target) error {
	const part = 100 << 10
	for _, backward := range []bool{true, false} {
		for _, t := range targets {
			b, ok := m.content[t.Name]
			if !ok {
				return fmt.Errorf("the image has no file %s", t.Name)
			}
			for i := (len(b) - 1) / part; i >= 0; i-- {
				data := b[i*part : min((i+1)*part, len(b))]
				if (i%2 == 0) != backward || len(bytes.TrimLeft(data, "\x00")) == 0 {
					continue
				}
				if _, err := t.To.WriteAt(data, int64(i*part)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ReaderAt implements driver.RandomReader.
func (m *Image) ReaderAt(name string) (io.ReaderAt, int64, error) {
	e, ok := m.Entry(name)
	switch {
	case !ok:
		return nil, 0, fmt.Errorf("the image has no file %s", name)
	case e.Type == image.TypeHardlink:
		return m.ReaderAt(e.Link)
	case e.Type != image.TypeFile:
		return nil, 0, fmt.Errorf("entry %s is a %s", name, e.Type)
	}
	return bytes.NewReader(m.content[name]), e.Size, nil
}

// Content gives the content of a file of the image, and whether it has one of
// that name.
func (m *Image) Content(name string) ([]byte, bool) {
	b, ok := m.content[name]
	return b, ok
}

// Entry gives an entry of the image, and whether it has one of that name.
func (m *Image) Entry(name string) (image.Entry, bool) {
	for _, e := range m.entries {
		if e.Name == name {
			return e, true
		}
	}
	return image.Entry{}, false
}
