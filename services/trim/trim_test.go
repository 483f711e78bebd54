package trim

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

const mib = 1 << 20

func TestNext(t *testing.T) {
	var tr trimmer
	for i, step := range []struct {
		what      string
		allocated uint64 // MiB since the step before
		live      uint64 // MiB
		want      bool
	}{
		{"it starts", 20, 4, false},
		{"it is busy", 50, 40, false},
		{"it rests", 0, 40, true},
		{"pools are emptied, too", 0, 40, true},
		{"that is enough", 0, 10, false},
		{"a little was said", 0, 10, false},
		{"not worth it", 5, 10, false},
		{"now it is", 5, 10, false},
		{"and it rests", 0, 10, true},
		{"busy again before the second", 2, 10, false},
		{"the second", 0, 10, true},
		{"a large heap: not worth it", 20, 1000, false},
		{"nor when it rests", 0, 1000, false},
		{"an eighth of it is", 120, 1000, false},
		{"when it rests", 0, 1000, true},
	} {
		if got := tr.next(look{allocated: tr.last + step.allocated*mib, live: step.live * mib}); got != step.want {
			t.Errorf("step %d, %s: collects %v, want %v", i+1, step.what, got, step.want)
		}
	}
}

// What a pool held goes back to the system, since the process rests.
func TestServe(t *testing.T) {
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	var pool sync.Pool
	func() {
		buffer := make([]byte, 64*mib)
		for i := range buffer {
			buffer[i] = 1
		}
		pool.Put(&buffer)
	}()
	before := held()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx, time.Millisecond) }()
	for end := time.Now().Add(time.Minute); held()+60*mib > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the process holds %d bytes, %d before", held(), before)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
