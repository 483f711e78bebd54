package shim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/diapause/diapause/events/failpoint"
)

// points are the failpoints of this process, as the last worker armed them, in tests.
// Without any they cost one load of a pointer.
type points struct {
	set atomic.Pointer[failpoint.Set]

	mu   sync.Mutex
	text string // that set was made of
}

// hear sets the failpoints that a worker has armed for shims. The same text again
// doesn't reset their counts.
func (p *points) hear(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.text {
		return nil
	}
	set, err := failpoint.Parse(text)
	if err != nil {
		return fmt.Errorf("set the worker's failpoints: %w", err)
	}
	p.text = text
	p.set.Store(set)
	return nil
}

// at runs the failpoint n, if it is armed. One that hangs does so until the shim is
// killed.
func (p *points) at(n failpoint.Name) error { return p.during(context.Background(), n) }

// during is at for what can be given up: one that hangs does so until ctx ends.
func (p *points) during(ctx context.Context, n failpoint.Name) error {
	if p == nil {
		return nil
	}
	return p.set.Load().At(ctx, n)
}
