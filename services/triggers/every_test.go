package triggers_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/triggers"
)

// When a session is due whose last snapshot may get 10 minutes old.
func TestDue(t *testing.T) {
	const every = 10 * time.Minute
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }
	snapshot := func(minutes float64) *schemas.Sizes { return &schemas.Sizes{At: at(minutes)} }
	for name, c := range map[string]struct {
		record schemas.SessionRecord
		want   time.Time
	}{
		"never captured":          {schemas.SessionRecord{Since: at(1)}, at(11)},
		"captured since":          {schemas.SessionRecord{Since: at(1), Size: snapshot(5)}, at(15)},
		"resumed long after":      {schemas.SessionRecord{Since: at(60), Size: snapshot(5)}, at(70)},
		"a suspend was undone":    {schemas.SessionRecord{Since: at(9), Size: snapshot(5), Transition: schemas.Transition{Type: schemas.TSuspendAborted}}, at(15)},
		"a suspend failed":        {schemas.SessionRecord{Since: at(9), Transition: schemas.Transition{Type: schemas.TSuspendFailed}}, at(10)},
		"a checkpoint failed":     {schemas.SessionRecord{Since: at(1), Failure: &schemas.Failure{Op: schemas.OpCheckpoint, Count: 1, At: at(12)}}, at(12).Add(8 * time.Second)},
		"many failed":             {schemas.SessionRecord{Since: at(1), Failure: &schemas.Failure{Op: schemas.OpCheckpoint, Count: 99, At: at(12)}}, at(17)},
		"what failed was another": {schemas.SessionRecord{Since: at(1), Failure: &schemas.Failure{Op: schemas.OpSuspend, Count: 9, At: at(12)}}, at(11)},
	} {
		c.record.Created = start
		// Each up to a tenth earlier, by its uid.
		seen := map[time.Time]bool{}
		for i := range 50 {
			c.record.UID = schemas.UID(fmt.Sprint("u", i))
			got := triggers.Due(c.record, every)
			failed := c.record.Failure != nil && c.record.Failure.Op == schemas.OpCheckpoint
			if got.After(c.want) || got.Before(c.want.Add(-every/10)) || failed && !got.Equal(c.want) {
				t.Errorf("%s: due at %s, want %s or up to a minute earlier", name, got, c.want)
			}
			seen[got] = true
			if !failed && got != triggers.Due(c.record, every) {
				t.Errorf("%s: it is due at two times", name)
			}
		}
		if failed := c.record.Failure != nil && c.record.Failure.Op == schemas.OpCheckpoint; !failed && len(seen) < 10 {
			t.Errorf("%s: 50 sessions are due at %d times", name, len(seen))
		}
	}
}

// fleet is some sessions on two hosts, whose checkpoints take a second.
type fleet struct {
	mu      sync.Mutex
	records map[schemas.UID]schemas.SessionRecord
	idle    map[schemas.UID]bool
	gone    map[schemas.HostID]bool
	under   map[schemas.HostID]int // checkpoints under way
	most    int
	made    map[schemas.UID]int
	fails   map[schemas.UID]bool
}

func newFleet() *fleet {
	f := &fleet{
		records: map[schemas.UID]schemas.SessionRecord{}, idle: map[schemas.UID]bool{}, gone: map[schemas.HostID]bool{},
		under: map[schemas.HostID]int{}, made: map[schemas.UID]int{}, fails: map[schemas.UID]bool{},
	}
	for i := range 20 {
		uid := schemas.UID(fmt.Sprint("u", i))
		f.records[uid] = schemas.SessionRecord{
			UID: uid, Tenant: "acme", Session: schemas.SessionID(uid), Host: schemas.HostID(fmt.Sprint("h", i%2)), State: schemas.Running, Since: time.Now(), Created: time.Now(),
		}
	}
	return f
}

func (f *fleet) running() iter.Seq[schemas.SessionRecord] {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []schemas.SessionRecord
	for _, r := range f.records {
		all = append(all, r)
	}
	return func(yield func(schemas.SessionRecord) bool) {
		for _, r := range all {
			if !yield(r) {
				return
			}
		}
	}
}

func (f *fleet) changed(_ context.Context, h schemas.HostID) (func(schemas.UID) bool, bool) {
	return func(uid schemas.UID) bool { return !f.idle[uid] }, !f.gone[h]
}

func (f *fleet) renew(_ context.Context, r schemas.SessionRecord, _ string) (triggers.Outcome, error) {
	f.mu.Lock()
	f.under[r.Host]++
	f.most = max(f.most, f.under[r.Host])
	f.mu.Unlock()
	time.Sleep(time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.under[r.Host]--
	f.made[r.UID]++
	r = f.records[r.UID]
	if f.fails[r.UID] {
		r.Failure = &schemas.Failure{Op: schemas.OpCheckpoint, Count: f.made[r.UID], At: time.Now()}
		f.records[r.UID] = r
		return triggers.Outcome{Word: triggers.Failed, Why: "a test"}, nil
	}
	r.Size = &schemas.Sizes{At: time.Now().Add(-time.Second)}
	f.records[r.UID] = r
	return triggers.Outcome{Word: triggers.Done, Frozen: 100 * time.Millisecond}, nil
}

// serve runs what makes checkpoints for so long.
func (f *fleet) serve(t *testing.T, every, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	timed := &triggers.Timed{
		Wanted: func() bool { return every > 0 }, Running: f.running, Changed: f.changed, Renew: f.renew,
		Every: func(schemas.SessionRecord) time.Duration { return every }, Log: slog.New(slog.DiscardHandler),
	}
	if err := timed.Serve(ctx); err != nil {
		t.Error(err)
	}
}

// Each session that changes is captured in time, one at a time on each host, and over restarts; none that
// doesn't is, nor any on a host that is gone.
func TestTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.idle["u4"], f.fails["u5"] = true, true
		const every = 10 * time.Minute
		f.serve(t, 0, time.Hour)
		if len(f.made) > 0 {
			t.Errorf("without a policy these were made: %v", f.made)
		}
		for uid, r := range f.records {
			r.Since = time.Now()
			f.records[uid] = r
		}
		f.serve(t, every, 8*time.Minute) // nothing is due yet
		if len(f.made) > 0 {
			t.Errorf("in 8 minutes these were made: %v", f.made)
		}
		for range 8 {
			f.serve(t, every, 4*time.Minute)
		}
		for uid, r := range f.records {
			switch age := time.Since(r.Since); {
			case f.idle[uid] && f.made[uid] > 0:
				t.Errorf("%s, which does nothing, was captured %d times", uid, f.made[uid])
			case f.fails[uid] && (f.made[uid] < 5 || f.made[uid] > 15):
				t.Errorf("%s, whose checkpoints fail, was tried %d times in %s", uid, f.made[uid], age)
			case !f.idle[uid] && !f.fails[uid] && (f.made[uid] < 3 || f.made[uid] > 5):
				t.Errorf("%s was captured %d times in %s", uid, f.made[uid], age)
			}
		}
		if f.most != 1 {
			t.Errorf("%d were captured at one time on one host", f.most)
		}
		before := f.made["u1"]
		f.gone["h1"] = true
		f.serve(t, every, time.Hour)
		if f.made["u1"] != before || f.made["u0"] < before+5 {
			t.Errorf("with host h1 gone, u0 was captured %d times and u1 %d times, %d before", f.made["u0"], f.made["u1"], before)
		}
	})
}
