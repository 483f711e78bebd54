package archive

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/schemas"
)

// A year in which some sessions are suspended and resumed several times a day, others are run
// and removed each day, and one sleeps from the first day to the last: what NATS has stays
// bounded, the sleeper is as it was, and the log as a whole has every revision.
func TestAYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const days, busyOnes, cycles, every = 365, 2, 1, 14
		log := statekvtest.New()
		b := newBench(t, Default(), log, &memoryHeads{})
		sleeper := b.suspend(b.run("sleeper", "sleeper"))
		var busy []string
		for i := range busyOnes {
			id := fmt.Sprint("busy-", i)
			b.run(id, id)
			busy = append(busy, id)
		}
		written, most := 5+busyOnes*2, uint64(0)
		for day := range days {
			for _, id := range busy {
				for range cycles {
					v, err := log.Get(b.ctx, name(id))
					b.must(err)
					v = b.suspend(v)
					v = b.swap(v, schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: &schemas.Op{ID: "w", Source: v.Head}}})
					b.swap(v, schemas.Transition{Type: schemas.TResumed})
					written += 5
				}
			}
			b.remove(b.run(fmt.Sprint("short-", day), fmt.Sprint("u", day)))
			written += 4
			time.Sleep(24 * time.Hour)
			if day%every != 0 {
				continue
			}
			b.moved()
			is, err := log.Extent(b.ctx)
			b.must(err)
			if day > 40 {
				most = max(most, is.Entries)
			}
		}
		// 30 days of each busy session, 7 of those that were removed, the sleeper, and a day more.
		bound := uint64(31*busyOnes*cycles*5 + 8*4 + 8)
		if most > bound || most < bound/2 {
			t.Errorf("NATS had up to %d revisions, want less than %d", most, bound)
		}
		v, err := log.Get(b.ctx, name("sleeper"))
		if err != nil || v.Rev != sleeper.Rev || v.Head == nil || *v.Head != *sleeper.Head {
			t.Errorf("the sleeper is %+v, %v", v, err)
		}
		b.swap(v, schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: &schemas.Op{ID: "w", Source: v.Head}}})
		written++
		told := 0
		for _, lines := range b.whole(time.Time{}) {
			told += len(lines)
			if len(slices.Compact(slices.Clone(lines))) != len(lines) {
				t.Errorf("a revision is told twice: %q", lines)
			}
		}
		if told != written {
			t.Errorf("the log has %d revisions of %d", told, written)
		}
		if got := b.history("busy-0"); len(got) != 2+days*cycles*5 {
			t.Errorf("the history of a busy session has %d revisions", len(got))
		}
		h, _, err := b.heads.Get(b.ctx)
		b.must(err)
		t.Logf("after a year: %d revisions in NATS at most, %d in %d segments of %d bytes", most, told, h.End.Number, h.Bytes)
	})
}

// suspend suspends a running session, with a new head.
func (b *bench) suspend(v statekv.Versioned) statekv.Versioned {
	b.Helper()
	v = b.swap(v, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}})
	v = b.swap(v, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: fmt.Sprint("head-", v.Version)}, Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}})
	return b.swap(v, schemas.Transition{Type: schemas.TReaped})
}
