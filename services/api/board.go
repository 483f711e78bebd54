package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

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
	census  Census
	held    map[schemas.Tenant]*schemas.Held // but for what is stored
	claims  map[schemas.Tenant][]*claim      // that the records don't show yet
}

// Census is how many sessions there are.
type Census struct {
	States   map[schemas.State]int
	Breakers int // that are open
}

// Census counts the sessions of the fleet, as far as this server has read.
func (s *Server) Census() Census {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	return Census{maps.Clone(s.board.census.States), s.board.census.Breakers}
}

// count adds n for a record.
func (c *Census) count(r schemas.SessionRecord, n int) {
	c.States[r.State] += n
	if r.Failure != nil && r.Failure.Open && r.State != schemas.Deleted {
		c.Breakers += n
	}
}

// waiter takes every revision of one record, in order.
type waiter struct {
	ch chan statekv.Versioned
}

func newBoard() *board {
	return &board{
		records: map[schemas.Name]statekv.Versioned{}, waiting: map[schemas.Name]map[*waiter]struct{}{},
		census: Census{States: map[schemas.State]int{}}, held: map[schemas.Tenant]*schemas.Held{}, claims: map[schemas.Tenant][]*claim{},
	}
}

func (b *board) put(v statekv.Versioned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, there := b.records[v.Name()]; there {
		b.count(&old.SessionRecord, -1)
	}
	b.count(&v.SessionRecord, 1)
	b.records[v.Name()] = v
	b.drop(v.Tenant, func(c *claim) bool { return c.shownBy(v) })
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

// count adds n for a record.
func (b *board) count(r *schemas.SessionRecord, n int) {
	b.census.count(*r, n)
	h := b.held[r.Tenant]
	if h == nil {
		h = &schemas.Held{}
		b.held[r.Tenant] = h
	}
	sessions, running := weigh(r)
	h.Sessions, h.Running = h.Sessions+n*sessions, h.Running+n*running
}

// drop ends claims of a tenant.
func (b *board) drop(t schemas.Tenant, which func(*claim) bool) {
	if all := b.claims[t]; len(all) > 0 {
		if b.claims[t] = slices.DeleteFunc(all, which); len(b.claims[t]) == 0 {
			delete(b.claims, t)
		}
	}
}

func (b *board) get(n schemas.Name) (statekv.Versioned, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.records[n]
	return v, ok
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

// lookAgain is how often a revision is judged again that nothing has followed: its host
// may be gone by then.
const lookAgain = 500 * time.Millisecond

// awaitFrom is await for who has a revision already, and whose judge looks at more than
// that.
func awaitFrom(ctx context.Context, v statekv.Versioned, ch <-chan statekv.Versioned, judge func(statekv.Versioned) (outcome, error)) (statekv.Versioned, error) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case next := <-ch:
			if next.Version > v.Version {
				v = next
			}
		case <-tick.C:
		case <-ctx.Done():
			return statekv.Versioned{}, ctx.Err()
		}
		if o, err := judge(v); o == done || err != nil {
			return v, err
		}
	}
}

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
