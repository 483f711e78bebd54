package usage

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A session that sleeps through an hour is spoken for at midnight, or when something
// happens; every other one each hour.
func TestDue(t *testing.T) {
	midnight := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	revision := func(id string, s schemas.State, typ schemas.TransitionType, at time.Time) statekv.Versioned {
		return statekv.Versioned{Stored: at, SessionRecord: schemas.SessionRecord{
			Tenant: "acme", Session: schemas.SessionID(id), UID: schemas.UID(id), State: s, Transition: schemas.Transition{Type: typ, At: at},
		}}
	}
	for _, c := range []struct {
		name         string
		state        schemas.State
		typ          schemas.TransitionType
		first, later bool // due in its first hour, and in the next
	}{
		{"running", schemas.Running, schemas.TStarted, true, true},
		{"exited", schemas.Exited, schemas.TExited, true, true},
		{"suspended", schemas.Suspended, schemas.TSuspended, true, false},
		{"deleted", schemas.Deleted, schemas.TRemoved, false, false},
	} {
		edge := midnight.Add(-10 * time.Hour)
		f := NewFold(edge)
		f.Add(revision(c.name, c.state, c.typ, edge.Add(-30*time.Minute)))
		for hour, want := range []bool{c.first, c.later, c.later} {
			got := due(f, edge)
			if (len(got) == 1) != want || len(got) > 1 {
				t.Errorf("%s, hour %d: %v, want %t", c.name, hour, got, want)
			}
			edge = edge.Add(time.Hour)
			f.Shift(edge, func(*Session) bool { return !want })
		}
		for ; edge.Before(midnight); f.Shift(edge, func(*Session) bool { return true }) {
			due(f, edge)
			edge = edge.Add(time.Hour)
		}
		got := due(f, midnight)
		if (len(got) == 0) != (c.name == "deleted") {
			t.Errorf("%s, at midnight: %v", c.name, got)
		}
		if c.name == "suspended" && got[0].SuspendedSeconds < 7*3600 {
			t.Errorf("at midnight the hours before are missing: %+v", got[0])
		}
	}
}
