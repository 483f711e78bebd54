package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/schemas"
)

// records are those of the world as one process sees them: each call takes its time, and a
// process that was killed never comes back from one.
type records struct {
	fake *statekvtest.Fake
	l    *life
}

func (r records) Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	if err := r.l.step(ctx); err != nil {
		return statekv.Versioned{}, err
	}
	v, err := r.fake.Get(ctx, n)
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
	if r.l.w.chance(30) { // it arrives even if its sender is gone by then
		done := make(chan struct{})
		delay := r.l.w.delay()
		r.l.w.background.Go(func() {
			defer close(done)
			time.Sleep(delay)
			v, err = r.fake.Swap(context.WithoutCancel(ctx), prev, t)
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
		v, err = r.fake.Swap(ctx, prev, t)
	}
	if e := r.l.step(ctx); e != nil {
		return statekv.Versioned{}, fmt.Errorf("%w: %w", statekv.ErrUnknown, e)
	}
	return v, err
}

func (r records) Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return r.fake.Watch(ctx, func(v statekv.Versioned) {
		if r.l.step(ctx) != nil {
			stop()
			return
		}
		fn(v)
	}, caughtUp)
}

func (r records) Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error {
	return r.Watch(ctx, func(v statekv.Versioned) { fn(statekv.GlanceOf(v)) }, caughtUp)
}

func (r records) History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error) {
	if err := r.l.step(ctx); err != nil {
		return nil, err
	}
	return r.fake.History(ctx, n)
}

func (r records) Log(ctx context.Context, fn func(statekv.Versioned) error) error {
	if err := r.l.step(ctx); err != nil {
		return err
	}
	return r.fake.Log(ctx, fn)
}

// log gives every revision that there is.
func (w *world) log() (all []statekv.Versioned) {
	err := w.records.Log(context.Background(), func(v statekv.Versioned) error {
		all = append(all, v)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}
