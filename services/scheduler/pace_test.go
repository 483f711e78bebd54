package scheduler

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// The room of each host goes to what was used least recently; a host without room
// holds up no other.
func TestRoom(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := func(host schemas.HostID, name schemas.SessionID, last int) overdue {
		t := &tracked{}
		t.record.Tenant, t.record.Session, t.record.Host = "acme", name, host
		return overdue{t, session.Decision{Evidence: schemas.Evidence{LastAt: t0.Add(time.Duration(last) * time.Second)}}}
	}
	p := newPace()
	var due []overdue
	for i := range suspendsAtOnce + 2 {
		due = append(due, one("a", schemas.SessionID(rune('a'+i)), 100-i))
	}
	now, later := p.room(append(due, one("b", "other", 500)))
	if len(now) != suspendsAtOnce+1 || len(later) != 2 || later[0].d.Evidence.LastAt.Before(now[0].d.Evidence.LastAt) || now[len(now)-1].t.record.Host != "b" {
		t.Errorf("%d go now, %d later", len(now), len(later))
	}
	if now, later = p.room(later); len(now) != 0 || len(later) != 2 {
		t.Errorf("without room %d go", len(now))
	}
	first := due[2].t.record.SessionRecord
	first.State = schemas.Suspended
	p.see(first)
	if now, _ = p.room(later); len(now) != 1 {
		t.Errorf("with room for one %d go", len(now))
	}
}
