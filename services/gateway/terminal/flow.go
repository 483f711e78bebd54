package terminal

import (
	"context"
	"sync"
)

// window is how many bytes of binary messages a client that says what it has shown may be sent beyond that.
const window = 256 << 10

// flow is what was sent and isn't shown.
type flow struct {
	mu      sync.Mutex
	counts  bool // the client says what it has shown
	sent    int64
	shown   int64
	changed chan struct{}
}

func newFlow(counts bool) *flow { return &flow{counts: counts, changed: make(chan struct{})} }

// room waits until the client has shown enough of what it was sent, and counts n bytes more.
func (f *flow) room(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		if free := !f.counts || f.sent-f.shown < window; free {
			f.sent += int64(n)
			f.mu.Unlock()
			return nil
		}
		wait := f.changed
		f.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// showed takes how many bytes the client has shown, in all.
func (f *flow) showed(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > f.shown && n <= f.sent {
		f.shown = n
		close(f.changed)
		f.changed = make(chan struct{})
	}
}
