package shim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/diapause/diapause/events/failpoint"
)

// points are what goes wrong in this process, in tests, as the worker that spoke last
// has it: nothing, at the price of a look at a pointer.
type points struct {
	set atomic.Pointer[failpoint.Set]

	mu   sync.Mutex
	text string // that set was made of
}

// hear takes in what a worker has armed for the moments of shims. The same as before
// counts on.
func (p *points) hear(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.text {
		return nil
	}
	set, err := failpoint.Parse(text)
	if err != nil {
		return fmt.Errorf("take in the worker's failpoints: %w", err)
	}
	p.text = text
	p.set.Store(set)
	return nil
}

// at is called when a moment is reached. A shim is asked for nothing that ends before
// it has done it: what hangs here hangs until it is killed.
func (p *points) at(n failpoint.Name) error {
	if p == nil {
		return nil
	}
	return p.set.Load().At(context.Background(), n)
}
