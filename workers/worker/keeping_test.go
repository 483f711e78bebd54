package worker_test

import (
	"context"
	"sync"
	"testing"

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
}

func (k *keeping) Kept() ([]driver.Kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, nil
}

func (k *keeping) Release(_ context.Context, f driver.Fence) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
	k.released <- f
	return nil
}

// What is kept here of a session that has ended goes when that has run elsewhere, and what
// was there before the session is let go of with it: by a worker that sees it, and by one
// that was away meanwhile.
func TestKeptOfASessionThatWentElsewhere(t *testing.T) {
	for what, c := range map[string]struct{ foreign, away bool }{"its own": {false, false}, "its own, unseen": {false, true}, "another's": {true, false}, "another's, unseen": {true, true}} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			k := &keeping{Driver: b.fake, released: make(chan driver.Fence, 10)}
			o := b.options()
			o.Drivers = map[string]driver.Driver{"fake": k}
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
			b.change(schemas.Transition{Type: schemas.TRestart, Set: schemas.Set{Host: "other", Op: b.op(schemas.OpStart)}})
			b.change(schemas.Transition{Type: schemas.TStarted})
			if c.foreign {
				b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
			}
			if c.away {
				b.workWith(o)
			}
			select {
			case f := <-k.released:
				if f.UID != v.UID || f.Epoch != v.Epoch {
					t.Errorf("let go of %+v", f)
				}
			case <-b.ctx.Done():
				t.Fatal("it is kept for ever")
			}
		})
	}
}
