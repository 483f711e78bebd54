package api

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
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
	mu       sync.Mutex
	records  map[schemas.Name]sight
	waiting  map[schemas.Name]map[*waiter]struct{}
	census   Census
	held     map[schemas.Tenant]*schemas.Held // but for what is stored
	claims   map[schemas.Tenant][]*claim      // that the records don't show yet
	hostless hostless
}

// Census is how many sessions there are.
type Census struct {
	States   map[schemas.State]int
	Breakers int // that are open
	Archived int
}

func (b *board) counted() Census {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Census{maps.Clone(b.census.States), b.census.Breakers, b.census.Archived}
}

// count adds n for a record.
func (c *Census) count(s sight, n int) {
	c.States[s.state] += n
	if s.open && s.state != schemas.Deleted {
		c.Breakers += n
	}
	if s.archived {
		c.Archived += n
	}
}

// sight is a record as the board keeps it: packed, since there may be a million of them,
// and without how the session is to be started. So nothing can be swapped for it.
type sight struct {
	uid      schemas.UID
	version  uint64
	state    schemas.State
	open     bool // its breaker
	moves    bool // to another host
	host     schemas.HostID
	archived bool
	busy     bool // it takes a slot, or an operation is under way
	packed   []byte
}

// sightOf gives the sight of a record, encoded without its spec.
func sightOf(r *schemas.SessionRecord, packed []byte) sight {
	return sight{uid: r.UID, version: r.Version, state: r.State, open: r.Failure != nil && r.Failure.Open, moves: r.MovingTo() != "", host: r.Host, archived: r.Archived != nil, busy: r.Op != nil || onHost(r.State), packed: packed}
}

func (s sight) record() (r schemas.SessionRecord) {
	_ = json.Unmarshal(s.packed, &r) // of sightOf
	return r
}

// waiter takes every revision of one record, in order.
type waiter struct {
	ch chan statekv.Versioned
}

func newBoard() *board {
	return &board{
		records: map[schemas.Name]sight{}, waiting: map[schemas.Name]map[*waiter]struct{}{},
		census: Census{States: map[schemas.State]int{}}, held: map[schemas.Tenant]*schemas.Held{}, claims: map[schemas.Tenant][]*claim{},
		hostless: hostless{names: map[schemas.Name]struct{}{}, news: make(chan struct{}, 1)},
	}
}

// skim puts a revision on the board. The whole of it is decoded for those alone who wait
// for it.
func (b *board) skim(seen statekv.Seen) error {
	n, s := seen.Record.Name(), sightOf(&seen.Record, seen.Without("spec"))
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, there := b.records[n]; there {
		b.count(n.Tenant, old, -1)
	}
	b.count(n.Tenant, s, 1)
	b.records[n] = s
	b.hostless.see(n, &seen.Record)
	b.drop(n.Tenant, func(c *claim) bool { return c.name == n && c.shownBy(s) })
	if len(b.waiting[n]) == 0 {
		return nil
	}
	v, err := seen.Whole()
	if err == nil {
		b.tell(v)
	}
	return err
}

// tell hands a revision to those who wait for it. It is called with mu held.
func (b *board) tell(v statekv.Versioned) {
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
		w.ch <- v // tell alone sends, and there is room now
	}
}

// count adds n for a record.
func (b *board) count(t schemas.Tenant, s sight, n int) {
	b.census.count(s, n)
	h := b.held[t]
	if h == nil {
		h = &schemas.Held{}
		b.held[t] = h
	}
	sessions, running := weigh(s.state, s.moves, s.archived)
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

func (b *board) get(n schemas.Name) (schemas.SessionRecord, bool) {
	b.mu.Lock()
	s, ok := b.records[n]
	b.mu.Unlock()
	if !ok {
		return schemas.SessionRecord{}, false
	}
	return s.record(), true
}

// all gives the records of a tenant, or of all if it is empty, as they are when it begins;
// but for those of sessions that were deleted.
func (b *board) all(t schemas.Tenant) iter.Seq[schemas.SessionRecord] {
	return b.those(t, func(sight) bool { return true })
}

// those gives the records of all that is of such a sight.
func (b *board) those(t schemas.Tenant, such func(sight) bool) iter.Seq[schemas.SessionRecord] {
	return func(yield func(schemas.SessionRecord) bool) {
		b.mu.Lock()
		var some []sight
		for n, s := range b.records {
			if s.state != schemas.Deleted && (t == "" || n.Tenant == t) && such(s) {
				some = append(some, s)
			}
		}
		b.mu.Unlock()
		for _, s := range some {
			if !yield(s.record()) {
				return
			}
		}
	}
}

// after gives the records of a tenant, or of all if it is empty, that follow a name in the order of lists. Those alone are decoded
// that the caller takes: a page of many sessions is read often.
func (b *board) after(last schemas.Name, t schemas.Tenant, such func(schemas.Name, sight) bool) iter.Seq[schemas.SessionRecord] {
	type named struct {
		name schemas.Name
		sight
	}
	return func(yield func(schemas.SessionRecord) bool) {
		b.mu.Lock()
		var some []named
		for n, s := range b.records {
			if s.state != schemas.Deleted && (t == "" || n.Tenant == t) && inOrder(last, n) < 0 && such(n, s) {
				some = append(some, named{n, s})
			}
		}
		b.mu.Unlock()
		slices.SortFunc(some, func(a, b named) int { return inOrder(a.name, b.name) })
		for _, s := range some {
			if !yield(s.record()) {
				return
			}
		}
	}
}

// inOrder is the order of lists.
func inOrder(a, b schemas.Name) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
}

// asleep counts the suspended sessions of each host, those on their way elsewhere left out.
func (b *board) asleep() map[schemas.HostID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[schemas.HostID]int{}
	for _, s := range b.records {
		if s.state == schemas.Suspended && !s.moves {
			out[s.host]++
		}
	}
	return out
}

// busy gives the records of the sessions that take a slot, or of which an operation is under way.
func (b *board) busy(yield func(schemas.SessionRecord) bool) {
	b.mu.Lock()
	var some []sight
	for _, s := range b.records {
		if s.busy {
			some = append(some, s)
		}
	}
	b.mu.Unlock()
	for _, s := range some {
		if !yield(s.record()) {
			return
		}
	}
}

// leaves reports whether a session is on its way out of a host, as far as is known here.
func (b *board) leaves(h schemas.HostID) bool {
	for r := range b.busy {
		if r.Host != h {
			continue
		}
		switch {
		case r.State == schemas.Suspending, r.State == schemas.Suspended, r.State == schemas.Deleted:
			return true
		case r.Op != nil && r.Op.Kind == schemas.OpKill:
			return true
		}
	}
	return false
}

// running gives the records of those that run.
func (b *board) running() iter.Seq[schemas.SessionRecord] {
	return func(yield func(schemas.SessionRecord) bool) {
		b.mu.Lock()
		var some []sight
		for _, s := range b.records {
			if s.state == schemas.Running {
				some = append(some, s)
			}
		}
		b.mu.Unlock()
		for _, s := range some {
			if !yield(s.record()) {
				return
			}
		}
	}
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
