package image

import (
	"sync/atomic"
	"time"
)

// ReadTimes says what reading an image has taken so far, by step, summed over
// all that went on at the same time.
type ReadTimes struct {
	Fetch      time.Duration // within the store
	Verify     time.Duration // digests of what it gave
	Decrypt    time.Duration
	Decompress time.Duration
	Again      int64 // bytes of frames that were decoded more than once
}

// Times says what reading has taken so far.
func (r *Reader) Times() ReadTimes {
	t := &r.times
	return ReadTimes{
		Fetch: t.fetch.sum(), Verify: t.verify.sum(), Decompress: t.decompress.sum(), Again: t.again.Load(),
		Decrypt: max(0, t.open.sum()-t.wait.sum()), // but for what it waited for ciphertext
	}
}

type readTimes struct {
	fetch, verify, open, wait, decompress stopwatch

	again atomic.Int64
}

func (t *readTimes) spanIs(data []byte, want string) bool {
	defer t.verify.begin()()
	return spanDigest(data) == want
}

// stopwatch adds up time, from any number of goroutines.
type stopwatch struct{ ns atomic.Int64 }

func (s *stopwatch) begin() (end func()) {
	began := time.Now()
	return func() { s.ns.Add(int64(time.Since(began))) }
}

func (s *stopwatch) sum() time.Duration { return time.Duration(s.ns.Load()) }
