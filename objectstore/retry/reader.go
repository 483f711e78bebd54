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

// open leaves a body in any case: who reads on, or closes it, must be able to.
func (r *reader) open() error {
	err := r.store.try(r.ctx, func() (err error) {
		r.body, err = r.store.to.Get(r.ctx, r.name, r.offset, r.left)
		return err
	})
	if errors.Is(err, objectstore.ErrNotFound) && r.barren > 0 {
		err = io.ErrUnexpectedEOF // deleted meanwhile
	}
	if err != nil {
		r.body = spent{err}
	}
	return err
}

// spent is the body of an object that can't be opened again.
type spent struct{ err error }

func (s spent) Read([]byte) (int, error) { return 0, s.err }
func (spent) Close() error               { return nil }

func (r *reader) Read(p []byte) (int, error) {
	if gone, ok := r.body.(spent); ok {
		return 0, gone.err // all patience was spent on it
	}
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
		if err := r.open(); err != nil {
			return 0, err
		}
	}
}

func (r *reader) Close() error { return r.body.Close() }
