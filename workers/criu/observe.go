package criu

import (
	"context"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// looks are the last looks at sessions. A session whose cgroup has used no CPU time since the
// last look is as it was then: nothing is asked of its shim, so that idle sessions cost one
// read of a counter.
type looks struct {
	mu   sync.Mutex
	last map[schemas.UID]look
}

// look is what was seen of a session, and the CPU time that its cgroup had used before.
type look struct {
	cpu  time.Duration
	seen driver.Observation
}

// unchanged gives what the last look saw, if the session has executed nothing since. The other
// end of a connection can close it without that.
func (l *looks) unchanged(uid schemas.UID, cpu time.Duration) (driver.Observation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.last[uid]
	return was.seen, ok && was.cpu == cpu && was.seen.Inbound == 0
}

func (l *looks) keep(uid schemas.UID, now look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[schemas.UID]look{}
	}
	l.last[uid] = now
}

func (l *looks) forget(uid schemas.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, uid)
}

// Observe says what the session does now.
func (d *Driver) Observe(ctx context.Context, uid schemas.UID) (driver.Observation, error) {
	cpu, err := d.shims.cpu(uid) // before the look: what runs during it is seen by the next
	if err == nil {
		if seen, ok := d.looks.unchanged(uid, cpu); ok {
			return seen, nil
		}
	}
	m, orderErr := d.shims.order(ctx, uid, shim.Order{Op: shim.OrderObserve})
	if orderErr != nil {
		d.looks.forget(uid)
		return driver.Observation{}, orderErr
	}
	if err == nil {
		d.looks.keep(uid, look{cpu, *m.Seen})
	}
	return *m.Seen, nil
}

// cpu is the CPU time that the processes of a session have used.
func (h *shims) cpu(uid schemas.UID) (time.Duration, error) {
	group, ok := h.hierarchy.Group(shim.SessionGroup(uid))
	if !ok {
		return 0, driver.ErrNotHere
	}
	return group.CPU()
}
