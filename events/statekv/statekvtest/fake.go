package statekvtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Fake keeps session records in memory, as statekv.Store keeps them in a log. It is safe for
// concurrent use. One that is made inside a bubble of testing/synctest runs by its clock.
type Fake struct {
	mu    sync.Mutex
	log   []entry
	last  map[schemas.Name]int // the place of each record's last revision in the log
	grown chan struct{}        // closed and replaced with each revision
	swaps int
}

// entry is one revision, encoded: what readers get is their own.
type entry struct {
	name   schemas.Name
	data   []byte // nil if it was purged
	stored time.Time
}

var _ Records = (*Fake)(nil)

// New gives a Fake without records.
func New() *Fake { return &Fake{last: map[schemas.Name]int{}, grown: make(chan struct{})} }

// Get reads the last revision of a record, as statekv.Store does.
func (f *Fake) Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	if err := ctx.Err(); err != nil {
		return statekv.Versioned{}, fmt.Errorf("read record of %s: %w", n, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.last[n]
	if !ok {
		return statekv.Versioned{}, fmt.Errorf("session %s: %w", n, statekv.ErrNoSession)
	}
	return decode(f.log[at], at), nil
}

// Swap applies a transition, as statekv.Store does. With a context that has ended it is
// ErrUnknown, and nothing was written.
func (f *Fake) Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.swaps++
	t.ID = fmt.Sprint("t", f.swaps)
	if t.At.IsZero() {
		t.At = time.Now().UTC().Truncate(time.Millisecond)
	}
	next, err := session.Apply(prev.SessionRecord, t)
	if err != nil {
		return statekv.Versioned{}, fmt.Errorf("session %s: %w", prev.Name(), err)
	}
	n := next.Name()
	if err := ctx.Err(); err != nil {
		return statekv.Versioned{}, fmt.Errorf("%s session %s: %w: %w", t.Type, n, statekv.ErrUnknown, err)
	}
	if f.revision(n) != prev.Rev {
		return statekv.Versioned{}, fmt.Errorf("%s session %s: %w", t.Type, n, statekv.ErrConflict)
	}
	return f.write(next), nil
}

// Put writes a record as it stands, without a transition and on top of any revision: it
// makes the state that a test begins with, or goes on from.
func (f *Fake) Put(r schemas.SessionRecord) statekv.Versioned {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Transition = schemas.Transition{}
	return f.write(r)
}

// revision is a record's last. mu is held.
func (f *Fake) revision(n schemas.Name) statekv.Revision {
	if at, ok := f.last[n]; ok {
		return revisionAt(at)
	}
	return statekv.Revision{}
}

// write appends a revision. mu is held.
func (f *Fake) write(r schemas.SessionRecord) statekv.Versioned {
	data, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("encode record of %s: %v", r.Name(), err)) // it is made of types that can be
	}
	at := len(f.log)
	f.log = append(f.log, entry{r.Name(), data, time.Now()})
	f.last[r.Name()] = at
	close(f.grown)
	f.grown = make(chan struct{})
	return statekv.Versioned{SessionRecord: r, Rev: revisionAt(at)}
}

func revisionAt(at int) statekv.Revision { return statekv.RevisionAt(uint64(at) + 1) }

// decode gives the revision at a place of the log.
func decode(e entry, at int) statekv.Versioned {
	v := statekv.Versioned{Rev: revisionAt(at), Stored: e.stored}
	if err := json.Unmarshal(e.data, &v.SessionRecord); err != nil {
		panic(fmt.Sprintf("decode record of %s: %v", e.name, err)) // it was encoded here
	}
	return v
}

// from gives the entries at a place of the log and after it, and what is closed when there
// are more.
func (f *Fake) from(at int) ([]entry, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log[at:]), f.grown
}

// Watch calls fn with the last revision of every record, then with each new one, as
// statekv.Store does.
func (f *Fake) Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	seen, _ := f.from(0)
	last := map[schemas.Name]int{}
	for at, e := range seen {
		last[e.name] = at
	}
	for at, e := range seen {
		if ctx.Err() != nil {
			return nil
		}
		if last[e.name] == at && e.data != nil {
			fn(decode(e, at))
		}
	}
	caughtUp()
	for at := len(seen); ; {
		more, grown := f.from(at)
		for _, e := range more {
			if ctx.Err() != nil {
				return nil
			}
			if e.data != nil {
				fn(decode(e, at))
			}
			at++
		}
		if len(more) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil
		}
	}
}

// Glances is Watch of glances.
func (f *Fake) Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error {
	return f.Watch(ctx, func(v statekv.Versioned) { fn(statekv.GlanceOf(v)) }, caughtUp)
}

// History gives every revision of a record, oldest first.
func (f *Fake) History(ctx context.Context, n schemas.Name) (out []statekv.Versioned, err error) {
	err = f.Log(ctx, func(v statekv.Versioned) error {
		if v.Name() == n {
			out = append(out, v)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("session %s: %w", n, statekv.ErrNoSession)
	}
	return out, err
}

// Log calls fn with every revision that there is now, in the order of the log.
func (f *Fake) Log(ctx context.Context, fn func(statekv.Versioned) error) error {
	all, _ := f.from(0)
	for at, e := range all {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if e.data == nil {
			continue
		}
		if err := fn(decode(e, at)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// All gives the last revision of every record.
func (f *Fake) All(ctx context.Context) (out []statekv.Versioned, err error) {
	last := map[schemas.Name]statekv.Versioned{}
	err = f.Log(ctx, func(v statekv.Versioned) error {
		last[v.Name()] = v
		return nil
	})
	for _, v := range last {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b statekv.Versioned) int { return int(a.Rev.Seq()) - int(b.Rev.Seq()) })
	return out, err
}
