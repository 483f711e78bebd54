package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// ledger is the log of all records.
type ledger struct {
	mu    sync.Mutex
	all   []statekv.Versioned
	last  map[schemas.Name]statekv.Versioned
	grown chan struct{} // closed and made anew with each revision
	ids   int
}

func newLedger() *ledger {
	return &ledger{last: map[schemas.Name]statekv.Versioned{}, grown: make(chan struct{})}
}

func (g *ledger) get(n schemas.Name) (statekv.Versioned, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.last[n]
	if !ok {
		return v, fmt.Errorf("session %s: %w", n, statekv.ErrNoSession)
	}
	return v, nil
}

func (g *ledger) swap(prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ids++
	t.ID = fmt.Sprint("t", g.ids)
	if t.At.IsZero() {
		t.At = time.Now().UTC()
	}
	next, err := session.Apply(prev.SessionRecord, t)
	if err != nil {
		return statekv.Versioned{}, fmt.Errorf("session %s: %w", prev.Name(), err)
	}
	if now := g.last[next.Name()]; now.Rev != prev.Rev {
		return statekv.Versioned{}, fmt.Errorf("%s session %s: %w", t.Type, next.Name(), statekv.ErrConflict)
	}
	v := statekv.Versioned{SessionRecord: next, Rev: statekv.RevisionAt(uint64(len(g.all) + 1)), Stored: time.Now()}
	g.all = append(g.all, v)
	g.last[next.Name()] = v
	close(g.grown)
	g.grown = make(chan struct{})
	return v, nil
}

// from gives the revisions after the first n, and what tells of more.
func (g *ledger) from(n int) ([]statekv.Versioned, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all[n:]), g.grown
}

// records are the ledger as one process sees it.
type records struct {
	*ledger
	l *life
}

func (r records) Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	if err := r.l.step(ctx); err != nil {
		return statekv.Versioned{}, err
	}
	v, err := r.get(n)
	if e := r.l.step(ctx); e != nil {
		return statekv.Versioned{}, e
	}
	return v, err
}

// Swap may be cut off before or after it has happened, or while it is still on
// its way.
func (r records) Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	t.At = time.Now().UTC()
	var v statekv.Versioned
	var err error
	if r.l.w.chance(30) { // it goes its way, whatever becomes of who sent it
		done := make(chan struct{})
		delay := r.l.w.delay()
		r.l.w.background.Go(func() {
			defer close(done)
			time.Sleep(delay)
			v, err = r.swap(prev, t)
		})
		select {
		case <-done:
		case <-ctx.Done():
			return statekv.Versioned{}, fmt.Errorf("%w: %w", statekv.ErrUnknown, ctx.Err())
		}
	} else {
		if e := r.l.step(ctx); e != nil {
			return statekv.Versioned{}, fmt.Errorf("%w: %w", statekv.ErrUnknown, e)
		}
		v, err = r.swap(prev, t)
	}
	if e := r.l.step(ctx); e != nil {
		return statekv.Versioned{}, fmt.Errorf("%w: %w", statekv.ErrUnknown, e)
	}
	return v, err
}

func (r records) Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	all, _ := r.from(0)
	last := map[schemas.Name]statekv.Versioned{}
	for _, v := range all {
		last[v.Name()] = v
	}
	for _, v := range slices.SortedFunc(maps.Values(last), func(a, b statekv.Versioned) int { return int(a.Version) - int(b.Version) }) {
		if r.l.step(ctx) != nil {
			return nil
		}
		fn(v)
	}
	caughtUp()
	for at := len(all); ; {
		more, grown := r.from(at)
		for _, v := range more {
			if r.l.step(ctx) != nil {
				return nil
			}
			fn(v)
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

func (r records) Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error {
	return r.Watch(ctx, func(v statekv.Versioned) { fn(statekv.GlanceOf(v)) }, caughtUp)
}

func (r records) History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error) {
	var out []statekv.Versioned
	err := r.Log(ctx, func(v statekv.Versioned) error {
		if v.Name() == n {
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

func (r records) Log(ctx context.Context, fn func(statekv.Versioned) error) error {
	if err := r.l.step(ctx); err != nil {
		return err
	}
	all, _ := r.from(0)
	for _, v := range all {
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}
