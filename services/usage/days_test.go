package usage

import (
	"math"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Sums of days are kept by tenants, and come to those of the sessions. What images take is that of the day's end.
func TestDays(t *testing.T) {
	midnight := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	f := NewFold(midnight.Add(-24*time.Hour), midnight.Add(30*time.Hour))
	f.Days(Midnights(midnight.Add(-20*time.Hour), midnight.Add(30*time.Hour))...)
	record := schemas.SessionRecord{}
	do := func(hours float64, tr schemas.Transition) {
		t.Helper()
		tr.At = midnight.Add(time.Duration(hours * float64(time.Hour)))
		next, err := session.Apply(record, tr)
		if err != nil {
			t.Fatal(err)
		}
		record = next
		f.Add(statekv.Versioned{SessionRecord: next, Stored: tr.At})
	}
	sizes := &schemas.Sizes{Logical: 5000, Stored: 100}
	do(-3, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{New: &schemas.NewSession{UID: "u", Tenant: "acme", Session: "web"}, Op: &schemas.Op{Kind: schemas.OpStart}}})
	do(-2, schemas.Transition{Type: schemas.TStarted})
	do(-1, schemas.Transition{Type: schemas.TSuspend})
	do(-1, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: "h"}, Size: sizes}})
	do(0.5, schemas.Transition{Type: schemas.TReaped})
	do(1, schemas.Transition{Type: schemas.TResume, Evidence: &schemas.Evidence{Activity: "input"}, Set: schemas.Set{Op: &schemas.Op{}}})
	do(1, schemas.Transition{Type: schemas.TResumed})
	f.Advance(midnight.Add(30*time.Hour), none)
	got := f.days.usage()
	if len(got) != 3 {
		t.Fatalf("%d days: %+v", len(got), got)
	}
	const hour = 3600.
	want := []schemas.Amount{
		{RunningSeconds: hour, SuspendedSeconds: hour, OtherSeconds: hour, StoredByteSeconds: 100 * hour, SavedByteSeconds: 5000 * hour, CapturedBytes: 5000, WrittenBytes: 100, Suspends: 1},
		{RunningSeconds: 23 * hour, SuspendedSeconds: hour, StoredByteSeconds: 24 * 100 * hour, UsedByteSeconds: 23 * 5000 * hour, SavedByteSeconds: 5000 * hour, Resumes: 1, Wakes: 1},
		{RunningSeconds: 6 * hour, StoredByteSeconds: 6 * 100 * hour, UsedByteSeconds: 6 * 5000 * hour},
	}
	for i, d := range got {
		if d.Amount != want[i] || d.StoredBytes != 100 || d.Tenant != "acme" {
			t.Errorf("day %d: %+v, want %+v", i, d, want[i])
		}
		if from := midnight.Add(time.Duration(24*(i-1)) * time.Hour); !d.From.Equal(from) {
			t.Errorf("day %d begins at %s, want %s", i, d.From, from)
		}
	}
	if end := got[2].To; !end.Equal(midnight.Add(30 * time.Hour)) {
		t.Errorf("the last day ends at %s", end)
	}
	var sum float64
	for s := range f.Sessions {
		sum += s.In(1).Used
	}
	if math.Abs(sum-29*5000*hour) > 1 {
		t.Errorf("the session has %g", sum)
	}
}
