package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// suspendsAtOnce bounds the suspends for idleness that one host works on. After an
// outage hundreds may be due in the same moment, and each is frozen until its image is
// durable: they would all be frozen for as long as all of them take. A host that is
// gone holds up its own alone.
const suspendsAtOnce = 8

// paceAgain is when a suspend that found no room is decided about again. It has lost
// nothing: what is heard until then counts.
const paceAgain = 100 * time.Millisecond

// overdue is a session whose suspend is due.
type overdue struct {
	t *tracked
	d session.Decision
}

// pace is how many suspends for idleness each host has.
type pace struct {
	at    map[schemas.Name]schemas.HostID
	count map[schemas.HostID]int
}

func newPace() pace { return pace{map[schemas.Name]schemas.HostID{}, map[schemas.HostID]int{}} }

// see follows a record.
func (p pace) see(r schemas.SessionRecord) {
	if host, ok := p.at[r.Name()]; ok {
		delete(p.at, r.Name())
		p.count[host]--
	}
	if r.Op != nil && r.Op.Idle && (r.State == schemas.Suspending || r.State == schemas.Suspended) {
		p.add(r)
	}
}

func (p pace) add(r schemas.SessionRecord) {
	p.at[r.Name()] = r.Host
	p.count[r.Host]++
}

// room takes from the due those that may go now: of each host as many as it has room
// for, the ones that were used least recently first. The others come back later.
func (p pace) room(due []overdue) (now, later []overdue) {
	slices.SortStableFunc(due, func(a, b overdue) int {
		return cmp.Or(a.d.Evidence.LastAt.Compare(b.d.Evidence.LastAt), cmp.Compare(b.d.Evidence.IdleMS, a.d.Evidence.IdleMS))
	})
	for _, o := range due {
		r := o.t.record.SessionRecord
		if p.count[r.Host] >= suspendsAtOnce {
			later = append(later, o)
			continue
		}
		p.add(r)
		now = append(now, o)
	}
	return now, later
}
