package scheduler

import (
	"context"
	"sync"
)

// inbox hands what a reader finds to the loop, many at a time: a channel would cost
// more than what is done with a message.
type inbox[T any] struct {
	some chan struct{} // holds a token while there is something to take
	room chan struct{} // and while there is room again

	mu    sync.Mutex
	items []T
}

// inboxSize is how many items may wait before put blocks.
const inboxSize = 4096

func newInbox[T any]() *inbox[T] {
	return &inbox[T]{some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put brings one item, or gives up with ctx. Several may call it at once.
func (b *inbox[T]) put(ctx context.Context, item T) {
	for {
		b.mu.Lock()
		if len(b.items) < inboxSize {
			b.items = append(b.items, item)
			if len(b.items) == 1 {
				token(b.some)
			}
			if len(b.items) < inboxSize {
				token(b.room) // for the next who waits
			}
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
			return
		}
	}
}

// take gives all that is there, and uses spare for what comes.
func (b *inbox[T]) take(spare []T) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = spare[:0]
	token(b.room)
	return items
}

func token(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
