package retry

import (
	"context"
	"errors"
	"io"

	"github.com/diapause/diapause/objectstore"
)

// Get implements objectstore.Store. Objects never change, so a reader whose
// connection breaks goes on from where it was.
func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := &reader{ctx: ctx, store: s, name: name, offset: offset, left: length}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	ctx    context.Context
	store  *Store
	name   string
	offset int64
	left   int64 // -1: to the object's end
	body   io.ReadCloser
	barren int // how often in a row it was opened and gave nothing
}

// maxBarren is how often a store may open an object and then give nothing of it.
const maxBarren = 5

func (r *reader) open() error {
	return r.store.try(r.ctx, func() (err error) {
		r.body, err = r.store.to.Get(r.ctx, r.name, r.offset, r.left)
		return err
	})
}

func (r *reader) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.offset += int64(n)
		if r.left > 0 {
			r.left -= int64(n)
		}
		if n > 0 {
			r.barren = 0
			if !errors.Is(err, io.EOF) {
				return n, nil // its error comes again
			}
		}
		if err == nil || errors.Is(err, io.EOF) || final(err) || r.ctx.Err() != nil || r.barren == maxBarren {
			return n, err
		}
		r.barren++
		r.body.Close()
		if err := r.open(); errors.Is(err, objectstore.ErrNotFound) {
			return 0, io.ErrUnexpectedEOF // deleted meanwhile
		} else if err != nil {
			return 0, err
		}
	}
}

func (r *reader) Close() error { return r.body.Close() }
