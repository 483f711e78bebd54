package dir

import (
	"context"
	"fmt"
	"io"
	"os"
)

// ctxReader ends with its context's error.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// reader reads a range of one object.
type reader struct {
	ctx  context.Context
	file *os.File
	left int64 // bytes to go; -1: to the end
	name string
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("get %s: %w", r.name, err)
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.left > 0 && int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.file.Read(p)
	if r.left > 0 {
		r.left -= int64(n)
	}
	return n, err
}

func (r *reader) Close() error { return r.file.Close() }
