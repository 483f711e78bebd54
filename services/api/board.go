package api

import (
	"context"
	"sync"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// board shows the last revision of every record, and hands each new one to
// those who wait for it. It may be behind the log, so nothing is decided on it
// alone: a swap on a stale revision is refused.
type board struct {
	mu      sync.Mutex
	records map[schemas.Name]statekv.Versioned
	waiting map[schemas.Name]map[*waiter]struct{}
}

// waiter takes every revision of one record, in order.
type waiter struct {
	ch chan statekv.Versioned
}

func newBoard() *board {
	return &board{records: map[schemas.Name]statekv.Versioned{}, waiting: map[schemas.Name]map[*waiter]struct{}{}}
}

func (b *board) put(v statekv.Versioned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records[v.Name()] = v
	for w := range b.waiting[v.Name()] {
		select {
		case w.ch <- v:
			continue
		default:
		}
		// Too slow for its buffer: the oldest makes room, as the last word counts.
		select {
		case <-w.ch:
		default:
		}
		w.ch <- v // put alone sends, and there is room now
	}
}

func (b *board) all() []statekv.Versioned {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]statekv.Versioned, 0, len(b.records))
	for _, v := range b.records {
		out = append(out, v)
	}
	return out
}

// follow gives every revision of a record from now on, until stop is called.
func (b *board) follow(n schemas.Name) (<-chan statekv.Versioned, func()) {
	w := &waiter{ch: make(chan statekv.Versioned, 256)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[n] == nil {
		b.waiting[n] = map[*waiter]struct{}{}
	}
	b.waiting[n][w] = struct{}{}
	return w.ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting[n], w)
		if len(b.waiting[n]) == 0 {
			delete(b.waiting, n)
		}
	}
}

// outcome is what a revision means to someone who waits.
type outcome int

const (
	pending outcome = iota
	done
)

// await takes revisions until judge says that one is the outcome, or an error.
func await(ctx context.Context, ch <-chan statekv.Versioned, judge func(statekv.Versioned) (outcome, error)) (statekv.Versioned, error) {
	for {
		select {
		case v := <-ch:
			if o, err := judge(v); o == done || err != nil {
				return v, err
			}
		case <-ctx.Done():
			return statekv.Versioned{}, ctx.Err()
		}
	}
}
