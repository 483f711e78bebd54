package archive

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// anyLog draws the revisions of one name: sessions one after the other, the last of which may
// be removed.
func anyLog(t *rapid.T, now time.Time) (all []statekv.Versioned) {
	at := now.Add(-100 * day)
	states := []schemas.State{schemas.Running, schemas.Suspending, schemas.Suspended}
	add := func(uid string, s schemas.State, head, version int) {
		at = at.Add(time.Duration(rapid.IntRange(0, 72).Draw(t, "hours")) * time.Hour)
		if at.After(now) {
			at = now
		}
		r := schemas.SessionRecord{UID: schemas.UID(uid), State: s, Since: at, Version: uint64(version)}
		if head > 0 {
			r.Head = &schemas.Head{Name: string(rune('a' + head))}
		}
		all = append(all, statekv.Versioned{SessionRecord: r, Rev: statekv.RevisionAt(uint64(len(all) + 1)), Stored: at})
	}
	for life := range rapid.IntRange(1, 3).Draw(t, "lives") {
		uid, head := string(rune('A'+life)), 0
		for range rapid.IntRange(1, 40).Draw(t, "revisions") {
			head += rapid.IntRange(0, 1).Draw(t, "new head")
			add(uid, rapid.SampledFrom(states).Draw(t, "state"), head, len(all)+1)
		}
		if life < 2 || rapid.Bool().Draw(t, "removed") {
			add(uid, schemas.Deleted, head, len(all)+1)
		}
	}
	return all
}

// What is due is never what has to stay.
func TestDue(t *testing.T) {
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	p := Policy{Age: 10 * day, Count: 8, Removed: 3 * day}
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		all := anyLog(t, now)
		newest, forget := all[len(all)-1], rapid.Bool().Draw(t, "forget")
		seen := all[:rapid.IntRange(0, len(all)).Draw(t, "seen")]
		n := p.Due(newest, len(all), seen, now, forget)
		moved += n
		if n > len(seen) {
			t.Fatalf("%d of %d", n, len(seen))
		}
		gone := newest.State == schemas.Deleted && now.Sub(newest.Stored) >= p.Removed
		if n == len(all) && (!gone || !forget) {
			t.Fatalf("all go: removed %v, forget %v", gone, forget)
		}
		for i, v := range all[:n] {
			switch {
			case gone:
			case v.UID != newest.UID:
				if all[i+1].UID != v.UID && now.Sub(v.Stored) < p.Removed {
					t.Fatalf("revision %d of a session that was removed at %s goes", i+1, v.Stored)
				}
			case i >= len(all)-p.Count:
				t.Fatalf("revision %d of %d goes", i+1, len(all))
			case now.Sub(all[i+1].Stored) < p.Age:
				t.Fatalf("revision %d goes, which was the state %s ago", i+1, p.Age)
			case newest.Head != nil && v.Head != nil && *v.Head == *newest.Head:
				t.Fatalf("revision %d has the head of the newest", i+1)
			}
		}
		if n > 0 && !p.MayBeDue(newest, len(all), now, forget) && newest.UID == all[0].UID {
			t.Fatalf("%d are due, and no pass looks", n)
		}
	})
	if moved == 0 {
		t.Error("nothing was ever due")
	}
}

// What is due of a session in the plainest cases.
func TestDueOf(t *testing.T) {
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	p := Policy{Age: 10 * day, Count: 3, Removed: 3 * day}
	of := func(last schemas.State, days ...int) (all []statekv.Versioned) {
		for i, d := range days {
			state := schemas.Running
			if i == len(days)-1 {
				state = last
			}
			all = append(all, statekv.Versioned{SessionRecord: schemas.SessionRecord{UID: "u", State: state}, Rev: statekv.RevisionAt(uint64(i + 1)), Stored: now.Add(-time.Duration(d) * day)})
		}
		return all
	}
	for what, c := range map[string]struct {
		all    []statekv.Versioned
		forget bool
		want   int
	}{
		"young":                  {of(schemas.Running, 9, 8, 7, 6, 5), true, 0},
		"few":                    {of(schemas.Running, 99, 98, 97), true, 0},
		"old":                    {of(schemas.Running, 99, 98, 97, 96, 95), true, 2},
		"the state at the limit": {of(schemas.Running, 99, 98, 9, 8, 7), true, 1},
		"asleep for long":        {of(schemas.Suspended, 365), true, 0},
		"removed":                {of(schemas.Deleted, 5, 4, 3), true, 3},
		"removed, a host away":   {of(schemas.Deleted, 5, 4, 3), false, 2},
		"removed lately":         {of(schemas.Deleted, 5, 4, 2), true, 0},
	} {
		if got := p.Due(c.all[len(c.all)-1], len(c.all), c.all, now, c.forget); got != c.want {
			t.Errorf("%s: %d are due, want %d", what, got, c.want)
		}
	}
	if got := (Policy{Count: 3}).Due(of(schemas.Running, 99, 98, 97, 96)[3], 4, of(schemas.Running, 99, 98, 97, 96), now, true); got != 0 {
		t.Errorf("without an age %d are due", got)
	}
}
