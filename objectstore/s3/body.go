package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/diapause/diapause/objectstore"
)

// body is the content of one PUT. It gives exactly size bytes, the last of them
// only after the source has shown that it has no more: until then the server has
// nothing whole. It fails once its context has ended, so that nothing becomes
// whole after that either.
type body struct {
	ctx    context.Context
	source io.Reader
	size   int64
	read   int64
	err    error // what is wrong with the source, or the context's
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	left := b.size - b.read
	if left == 0 {
		return 0, io.EOF
	}
	n, err := b.source.Read(p[:min(int64(len(p)), left)])
	b.read += int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	case err != nil && b.read < b.size:
		b.err = fmt.Errorf("%w: %d bytes, want %d", objectstore.ErrSize, b.read, b.size)
	case b.read == b.size:
		b.err = b.end()
	}
	if b.err == nil {
		b.err = b.ctx.Err()
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, nil
}

// end checks that the source has nothing more.
func (b *body) end() error {
	for {
		n, err := b.source.Read(make([]byte, 1))
		switch {
		case n > 0:
			b.err = fmt.Errorf("%w: more than %d bytes", objectstore.ErrSize, b.size)
			return b.err
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			b.err = err
			return err
		}
	}
}
