package metrics

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/objectstore"
)

// storeCounts are what the calls to the store of images took and came to.
type storeCounts struct {
	took   *prometheus.HistogramVec
	errors *prometheus.CounterVec
	bytes  *prometheus.CounterVec
}

func newStoreCounts(m *Meter) storeCounts {
	c := storeCounts{
		took:   m.histogram("store_operation_duration_seconds", "Time of one call to the object store, until it was over; of get until all was read.", "op"),
		errors: m.counter("store_errors_total", "Calls to the object store that failed for good, by what came of them: full, denied, canceled, other.", "op", "reason"),
		bytes:  m.counter("store_bytes_total", "Bytes written to and read from the object store.", "op"),
	}
	for _, op := range []string{"put", "get", "list", "delete"} {
		for _, reason := range []string{"full", "denied", "other"} {
			c.errors.WithLabelValues(op, reason)
		}
	}
	return c
}

// Store is an object store whose calls are counted.
type Store struct {
	to     objectstore.Store
	counts storeCounts

	mu     sync.Mutex
	failed error // the last call's, if it failed
	since  time.Time
	before failure
}

// failure is the last call that failed, also if others went well since.
type failure struct {
	at  time.Time
	err error
}

var _ objectstore.Store = (*Store)(nil)

// Store counts the calls to a store.
func (m *Meter) Store(to objectstore.Store) *Store {
	if r, ok := to.(interface{ Retried() uint64 }); ok {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: space, Name: "store_retries_total", Help: "Calls to the object store that failed and were tried again.",
		}, func() float64 { return float64(r.Retried()) }))
	}
	return &Store{to: to, counts: m.store}
}

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	began := time.Now()
	err := s.to.Put(ctx, name, r, size) // r as it is: patience needs one that seeks
	s.done("put", began, err)
	if err == nil {
		s.counts.bytes.WithLabelValues("put").Add(float64(size))
	}
	return err
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	began := time.Now()
	r, err := s.to.Get(ctx, name, offset, length)
	if err != nil {
		s.done("get", began, err)
		return nil, err
	}
	return &reading{ReadCloser: r, store: s, began: began}, nil
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	began := time.Now()
	var own error // fn's, which isn't the store's
	err := s.to.List(ctx, prefix, func(i objectstore.Info) error {
		own = fn(i)
		return own
	})
	if own != nil {
		s.done("list", began, nil)
		return err
	}
	s.done("list", began, err)
	return err
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	began := time.Now()
	err := s.to.Delete(ctx, name)
	s.done("delete", began, err)
	return err
}

// done counts a call that is over.
func (s *Store) done(op string, began time.Time, err error) {
	s.counts.took.WithLabelValues(op).Observe(time.Since(began).Seconds())
	reason := reasonOf(err)
	if reason != "" {
		s.counts.errors.WithLabelValues(op, reason).Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case reason == "":
		s.failed = nil
	case reason != "canceled":
		s.failed, s.since = err, time.Now()
		s.before = failure{s.since, err}
	}
}

// reasonOf gives the word for an error; none for what is an answer and no failure.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrExists), errors.Is(err, objectstore.ErrRange), errors.Is(err, objectstore.ErrName), errors.Is(err, objectstore.ErrSize):
		return ""
	case errors.Is(err, objectstore.ErrFull):
		return "full"
	case errors.Is(err, objectstore.ErrDenied):
		return "denied"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "other"
}

// Last gives the error of the last call, and when it came; nil if that went well.
func (s *Store) Last() (since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.failed
}

// Failed gives the error of the last call that failed, also if others went well since, and when it came.
func (s *Store) Failed() (at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before.at, s.before.err
}

// Room says how much room the store has; nothing if it doesn't know.
func (s *Store) Room() (free, total int64, err error) {
	if r, ok := s.to.(interface {
		Room() (free, total int64, err error)
	}); ok {
		return r.Room()
	}
	return 0, 0, nil
}

// reading counts what is read of one object.
type reading struct {
	io.ReadCloser
	store *Store
	began time.Time
	n     int64
	err   error
	once  sync.Once
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (r *reading) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(func() {
		r.store.counts.bytes.WithLabelValues("get").Add(float64(r.n))
		r.store.done("get", r.began, r.err)
	})
	return err
}
