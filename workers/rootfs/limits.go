package rootfs

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// limits bound what an image may have.
type limits struct {
	manifest int64 // bytes
	config   int64 // bytes
	layers   int
	bytes    int64 // of all files, of all archives with their headers, and of all blobs; each
	entries  int64 // of all archives
}

// usual are far beyond what images have. A disk is full before, mostly.
var usual = limits{manifest: 4 << 20, config: 16 << 20, layers: 512, bytes: 1 << 40, entries: 20_000_000}

func tooLarge(format string, a ...any) error {
	return refuse(CodeTooLarge, "", "the image is larger than any root may be: "+format, a...)
}

// budget is what is left of a number of bytes.
type budget struct {
	what string
	left int64
}

func (b *budget) take(n int64) error {
	if n < 0 || n > b.left {
		return tooLarge("too many bytes of %s", b.what)
	}
	b.left -= n
	return nil
}

// bounded is a reader that ends with an error where a budget does.
type bounded struct {
	r io.Reader
	b *budget
}

func (r bounded) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if takeErr := r.b.take(int64(n)); takeErr != nil {
		return 0, takeErr
	}
	return n, err
}

// room keeps a disk from being filled to its end.
type room struct {
	dir   string
	since int64 // bytes written since the disk was asked
}

const (
	askEvery   = 64 << 20
	keptAtMost = 1 << 30 // bytes that stay free, or a twentieth of the disk if that is less
)

// take notes that n bytes are about to be written.
func (r *room) take(n int64) error {
	if r.since += n; r.since < askEvery {
		return nil
	}
	return r.ask(n)
}

// ask looks whether there is room for n bytes.
func (r *room) ask(n int64) error {
	r.since = 0
	var fs unix.Statfs_t
	if err := unix.Statfs(r.dir, &fs); err != nil {
		return fmt.Errorf("look how full the disk of %s is: %w", r.dir, err)
	}
	kept := min(int64(fs.Blocks)*fs.Bsize/20, keptAtMost)
	if free := int64(fs.Bavail) * fs.Bsize; free-n < kept {
		return fmt.Errorf("%s free, of which %s are kept: %w", schemas.Bytes(free), schemas.Bytes(kept), unix.ENOSPC)
	}
	return nil
}
