package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// keeping is a driver that keeps something of one session.
type keeping struct {
	*fake.Driver
	mu       sync.Mutex
	all      []driver.Kept
	released chan driver.Fence
	refuses  error
}

func (k *keeping) Kept() ([]driver.Kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, nil
}

func (k *keeping) Release(_ context.Context, f driver.Fence) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuses != nil {
		return k.refuses
	}
	k.all = nil
	k.released <- f
	return nil
}

// What is kept here of a session that has ended is released when that has run elsewhere, and
// what was there before the session when that is removed: by a worker that sees it, and by one
// that was stopped meanwhile.
func TestKeptOfASessionThatWentElsewhere(t *testing.T) {
	for what, c := range map[string]struct{ foreign, away bool }{"its own": {false, false}, "its own, unseen": {false, true}, "another's": {true, false}, "another's, unseen": {true, true}} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			k := &keeping{Driver: b.fake, released: make(chan driver.Fence, 10)}
			o := b.options()
			o.Drivers = map[schemas.DriverName]driver.Driver{"fake": k}
			b.workWith(o)
			b.asked("count")
			v := b.until("running", running)
			b.stop()
			b.change(schemas.Transition{Type: schemas.TExited, Set: schemas.Set{Exit: &schemas.Exit{Code: 1}}})
			b.must(b.fake.Stop(b.ctx, driver.Fence{UID: v.UID, Name: b.name, Epoch: v.Epoch}))
			k.all = []driver.Kept{{UID: v.UID, Name: b.name, Epoch: v.Epoch, Foreign: c.foreign}}
			if !c.away {
				b.workWith(o)
			}
			op := b.op(schemas.OpResume)
			op.Boot = "rollback"
			b.change(schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Host: "other", Op: op}})
			b.change(schemas.Transition{Type: schemas.TResumed})
			if c.foreign {
				b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
			}
			if c.away {
				b.workWith(o)
			}
			select {
			case f := <-k.released:
				if f.UID != v.UID || f.Epoch != v.Epoch {
					t.Errorf("released %+v", f)
				}
			case <-b.ctx.Done():
				t.Fatal("it is kept for ever")
			}
		})
	}
}

// What can't be released, since its engine is away, doesn't delay a session of the same name.
func TestKeptOfAnEarlierSessionDelaysNoOther(t *testing.T) {
	b := newBench(t)
	k := &keeping{Driver: b.fake, released: make(chan driver.Fence, 10), refuses: errors.New("the engine is away")}
	o := b.options()
	o.Sweep = 10 * time.Millisecond
	o.Drivers = map[schemas.DriverName]driver.Driver{"fake": k}
	b.work()
	b.asked("count")
	old := b.until("running", running)
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	b.until("removed", func(v statekv.Versioned) bool { return v.State == schemas.Deleted && v.Op == nil })
	b.crash()
	k.all = []driver.Kept{{UID: old.UID, Name: b.name, Epoch: old.Epoch}}
	b.workWith(o)
	b.asked("count")
	b.until("running", running)
	k.mu.Lock()
	k.refuses = nil
	k.mu.Unlock()
	select {
	case f := <-k.released:
		if f.UID != old.UID {
			t.Errorf("released %+v", f)
		}
	case <-b.ctx.Done():
		t.Fatal("it is kept for ever")
	}
}

// clearing is a driver that is told which sessions ended by themselves, and which are deleted.
type clearing struct {
	*fake.Driver
	ended, forgotten chan driver.Fence
}

func (c *clearing) Ended(ctx context.Context, f driver.Fence) error {
	c.ended <- f
	return c.Stop(ctx, f)
}

func (c *clearing) Forget(_ context.Context, f driver.Fence) error {
	c.forgotten <- f
	return nil
}

// A driver hears whether a session ended by itself or is to be stopped, and when it is deleted.
func TestEndedAndForgotten(t *testing.T) {
	b := newBench(t)
	c := &clearing{b.fake, make(chan driver.Fence, 10), make(chan driver.Fence, 10)}
	o := b.options()
	o.Drivers = map[schemas.DriverName]driver.Driver{"fake": c}
	b.workWith(o)
	b.asked("count")
	v := b.until("running", running)
	b.change(schemas.Transition{Type: schemas.TKill, Set: schemas.Set{Op: b.op(schemas.OpKill)}})
	b.until("killed", func(v statekv.Versioned) bool { return v.State == schemas.Exited })
	if len(c.ended) > 0 {
		t.Errorf("of a session that was killed it hears %+v", <-c.ended)
	}
	op := b.op(schemas.OpStart)
	b.change(schemas.Transition{Type: schemas.TRestart, Set: schemas.Set{Op: op}})
	b.until("running", running)
	b.fake.Exit(v.UID, 3)
	b.until("ended", func(v statekv.Versioned) bool { return v.State == schemas.Exited })
	if f := b.told(c.ended); f.UID != v.UID {
		t.Errorf("of one that ended it hears %+v", f)
	}
	if len(c.forgotten) > 0 {
		t.Error("it forgets a session that is there")
	}
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	if f := b.told(c.forgotten); f.UID != v.UID {
		t.Errorf("of one that was deleted it hears %+v", f)
	}
}

// told gives what a driver hears.
func (b *bench) told(of chan driver.Fence) (f driver.Fence) {
	b.t.Helper()
	select {
	case f = <-of:
	case <-b.ctx.Done():
		b.t.Fatal("it isn't told")
	}
	return f
}
