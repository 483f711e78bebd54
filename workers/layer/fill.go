package layer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
)

// Placer is a Source that writes many files at once, in the order that is best for it.
// *image.Reader is one.
type Placer interface {
	Place(ctx context.Context, targets []image.Target) error
}

// lateFile is a file that was made empty and gets its content from Fill.
type lateFile struct {
	x     *Extraction
	rel   string
	entry image.Entry
	many  *atomic.Int64 // files that are kept open

	mu   sync.Mutex
	open *os.File
}

// Small files are opened for each part that is written. Of the others some are kept open.
const (
	smallFile = 4 << 20 // bytes
	keptOpen  = 256     // files
)

// later makes an empty file whose content Fill writes, and says whether it did so.
func (x *Extraction) later(dir *os.File, rel string, e image.Entry) (bool, error) {
	if _, ok := x.Source.(Placer); !ok || e.Type != image.TypeFile || e.Size == 0 {
		return false, nil
	}
	f, err := createAt(dir, path.Base(rel))
	if err != nil {
		return false, err
	}
	defer f.Close()
	x.late = append(x.late, &lateFile{x: x, rel: rel, entry: e})
	return true, f.Truncate(e.Size)
}

// Beside has the content of a file of the image written elsewhere: by Fill together with the
// others, or at once if the source isn't a Placer.
func (x *Extraction) Beside(name string, to io.WriterAt) error {
	if _, ok := x.Source.(Placer); ok {
		x.beside = append(x.beside, image.Target{Name: name, To: to})
		return nil
	}
	r, err := x.Source.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(io.NewOffsetWriter(to, 0), r); err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	return nil
}

// Fill writes the contents of the files that extractions of one source have left empty,
// all of them in one pass over the source, and finishes the extractions.
func Fill(ctx context.Context, source Source, all ...*Extraction) error {
	var targets []image.Target
	var late []*lateFile
	var kept atomic.Int64
	for _, x := range all {
		targets = append(targets, x.beside...)
		for _, f := range x.late {
			f.many = &kept
			late = append(late, f)
			targets = append(targets, image.Target{Name: f.entry.Name, To: f})
		}
	}
	defer func() {
		for _, f := range late {
			f.close()
		}
	}()
	if len(targets) > 0 {
		if err := source.(Placer).Place(ctx, targets); err != nil {
			return err
		}
	}
	for _, f := range late {
		if err := f.finish(); err != nil {
			return fmt.Errorf("restore %s: %w", f.entry.Name, err)
		}
	}
	for _, x := range all {
		x.late, x.beside = nil, nil
		if err := x.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// WriteAt implements io.WriterAt.
func (f *lateFile) WriteAt(b []byte, off int64) (int, error) {
	to, release, err := f.acquire()
	if err != nil {
		return 0, err
	}
	defer release()
	return to.WriteAt(b, off)
}

func (f *lateFile) acquire() (to *os.File, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return f.open, func() {}, nil
	}
	to, err = Beneath(f.x.Root, f.rel, unix.O_WRONLY)
	if err != nil {
		return nil, nil, err
	}
	if f.entry.Size > smallFile && f.many.Add(1) <= keptOpen {
		f.open = to
		return to, func() {}, nil
	}
	return to, func() { to.Close() }, nil
}

func (f *lateFile) close() {
	if f.open != nil {
		f.open.Close()
	}
}

// finish gives the file its looks, after its last write.
func (f *lateFile) finish() error {
	dir, err := f.x.openDir(path.Dir(f.rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(f.rel)
	if err := dress(dir, base, f.entry); err != nil {
		return err
	}
	return f.x.fresh.made(dir, base, f.entry)
}
