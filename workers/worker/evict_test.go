package worker_test

import (
	"context"
	"sync"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// muffled are records whose watch can be cut off: of what was missed only the last revision
// is delivered.
type muffled struct {
	*statekv.Store
	mu   sync.Mutex
	off  bool
	last statekv.Versioned
	fns  []func(statekv.Versioned)
}

func (m *muffled) Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	m.mu.Lock()
	m.fns = append(m.fns, fn)
	m.mu.Unlock()
	return m.Store.Watch(ctx, func(v statekv.Versioned) {
		m.mu.Lock()
		m.last = v
		off := m.off
		m.mu.Unlock()
		if !off {
			fn(v)
		}
	}, caughtUp)
}

func (m *muffled) set(off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = off
	if !off {
		for _, fn := range m.fns {
			fn(m.last)
		}
	}
}

// A host that was cut off while its session went elsewhere, was removed there, and its
// name was given to another one: what is left here is removed, though no record mentions it.
func TestLeftBehindByASessionWhoseNameIsAnothers(t *testing.T) {
	b := newBench(t)
	records := &muffled{Store: b.records}
	o := b.options()
	o.Records = records
	b.workWith(o)
	b.asked("count")
	old := b.until("running", running)
	b.isOnHost(old.UID, "running")
	records.set(true)
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Host: "other", Op: b.op(schemas.OpRemove)}})
	b.change(schemas.Transition{Type: schemas.TRemoved})
	next := b.change(schemas.Transition{Type: schemas.TRun, Set: schemas.Set{Host: "other", Op: b.op(schemas.OpStart), New: &schemas.NewSession{
		UID: "later", Tenant: "default", Session: "work", Class: "web", Driver: "fake", Lineage: "later",
	}}})
	b.until("its last revision", func(v statekv.Versioned) bool { return v.Version == next.Version })
	records.mu.Lock()
	records.last = next
	records.mu.Unlock()
	records.set(false)
	b.isOnHost(old.UID, "")
}
