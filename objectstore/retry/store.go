package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/diapause/diapause/objectstore"
)

// Options bound the patience.
type Options struct {
	// For is how long one operation is tried, 5 minutes if zero.
	For time.Duration
	// First is the pause after the first failure, 200 ms if zero. Pauses grow by
	// half and vary by half, up to 10 s.
	First time.Duration
	// Notify, if given, hears of each failure that is tried again.
	Notify func(err error, wait time.Duration)
}

// Store is the store with patience.
type Store struct {
	to objectstore.Store
	o  Options

	retried atomic.Uint64
}

// Retried is how often something failed and was tried again.
func (s *Store) Retried() uint64 { return s.retried.Load() }

var _ objectstore.Store = (*Store)(nil)

// Wrap gives the store patience.
func Wrap(to objectstore.Store, o Options) *Store {
	if o.For == 0 {
		o.For = 5 * time.Minute
	}
	if o.First == 0 {
		o.First = 200 * time.Millisecond
	}
	if o.Notify == nil {
		o.Notify = func(error, time.Duration) {}
	}
	return &Store{to: to, o: o}
}

// decided are the answers that asking again doesn't change.
var decided = []error{
	objectstore.ErrNotFound, objectstore.ErrExists, objectstore.ErrFull, objectstore.ErrDenied,
	objectstore.ErrSize, objectstore.ErrName, objectstore.ErrRange, context.Canceled,
}

func final(err error) bool {
	return slices.ContainsFunc(decided, func(d error) bool { return errors.Is(err, d) })
}

// try calls fn until it succeeds, fails for good, or patience or ctx ends.
func (s *Store) try(ctx context.Context, fn func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = s.o.First, 10*time.Second
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = fn()
		if last != nil && (final(last) || ctx.Err() != nil) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(s.o.For), backoff.WithNotify(func(err error, wait time.Duration) {
		s.retried.Add(1)
		s.o.Notify(err, wait)
	}))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && !errors.Is(last, ctx.Err()) {
		return fmt.Errorf("%w (tried until then: %w)", ctx.Err(), last)
	}
	return last
}

// Put implements objectstore.Store. A reader that can't seek back is read once.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	seeker, ok := r.(io.Seeker)
	if !ok {
		return s.to.Put(ctx, name, r, size)
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	src := &source{Reader: r, Seeker: seeker}
	unsure := false // whether an earlier try may have written it
	err = s.try(ctx, func() error {
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			src.err = err
		}
		if src.err != nil {
			return backoff.Permanent(src.err)
		}
		err := s.to.Put(ctx, name, src, size)
		if src.err != nil {
			return backoff.Permanent(src.err)
		}
		if unsure && errors.Is(err, objectstore.ErrExists) {
			return s.ours(ctx, name, r, seeker, start, err)
		}
		unsure = unsure || err != nil && !final(err)
		return err
	})
	if src.err != nil {
		return fmt.Errorf("put %s: %w", name, src.err)
	}
	return err
}

// source remembers that it failed: that isn't the store's fault.
type source struct {
	io.Reader
	io.Seeker
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// ours returns nil if the object that is there is the one that was to be put.
func (s *Store) ours(ctx context.Context, name string, r io.Reader, seeker io.Seeker, start int64, exists error) error {
	if _, err := seeker.Seek(start, io.SeekStart); err != nil {
		return err
	}
	there, err := s.to.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer there.Close()
	same, err := equal(there, r)
	if err != nil {
		return err
	}
	if !same {
		return exists
	}
	return nil
}

func equal(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		switch {
		case ended(errA) && ended(errB):
			return true, nil
		case errA != nil && !ended(errA):
			return false, errA
		case errB != nil && !ended(errB):
			return false, errB
		case errA != nil || errB != nil:
			return false, nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// List implements objectstore.Store. Once fn has been called a failure is not
// tried again from the beginning: what was listed is remembered and left out.
func (s *Store) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	told := map[string]bool{}
	var stopped error
	err := s.try(ctx, func() error {
		err := s.to.List(ctx, prefix, func(i objectstore.Info) error {
			if told[i.Name] {
				return nil
			}
			told[i.Name] = true
			stopped = fn(i)
			return stopped
		})
		if stopped != nil {
			return backoff.Permanent(stopped)
		}
		return err
	})
	if stopped != nil {
		return stopped
	}
	return err
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.try(ctx, func() error { return s.to.Delete(ctx, name) })
}
