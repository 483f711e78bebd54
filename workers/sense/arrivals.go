package sense

import (
	"context"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A client that hears that a session runs may ask for its pid at once: after the record says
// so, and before the driver has returned or the first look was had.

const (
	// arrivalWait bounds how long an answer waits for sessions that come to run.
	arrivalWait = time.Second / 2
	// arrivalKept is how long the pid of one is kept until the first look.
	arrivalKept = 10 * time.Second
)

// arrival is a session that comes to run.
type arrival struct {
	since   time.Time
	version uint64        // of the record before it said so
	done    chan struct{} // closed when the driver has returned
	pid     int           // after done
}

// Arriving notes that a record is about to say that its session runs. The caller calls arrived
// when the driver has returned, with the pid, or 0 after an error.
func (s *Sensor) Arriving(rec statekv.Versioned) (arrived func(pid int)) {
	a := &arrival{since: time.Now(), version: rec.Version, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arriving[rec.UID] = a
	return func(pid int) {
		a.pid = pid
		close(a.done)
	}
}

// Observed gives what was seen last of the given sessions, or of all if none is given. It waits
// a moment for those of them that come to run just now.
func (s *Sensor) Observed(ctx context.Context, of ...schemas.UID) map[schemas.UID]schemas.Observed {
	ctx, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	out := map[schemas.UID]schemas.Observed{}
	asked := func(uid schemas.UID) bool { return len(of) == 0 || slices.Contains(of, uid) }
	for uid, a := range s.arrivals() {
		if !asked(uid) {
			continue
		}
		select {
		case <-a.done:
			if a.pid > 0 {
				out[uid] = schemas.Observed{PID: a.pid}
			}
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, look := range s.observed {
		if _, newer := out[uid]; newer || !asked(uid) {
			continue
		}
		out[uid] = schemas.Observed{PID: look.pid, RSSBytes: look.seen.RSS, Processes: look.seen.Processes, Status: look.seen.Status, Container: look.seen.Container, Listens: look.seen.Listens, Unchanged: look.unchanged}
	}
	return out
}

// arrivals gives the sessions that come to run and were not looked at yet, and drops the
// others.
func (s *Sensor) arrivals() map[schemas.UID]*arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[schemas.UID]*arrival{}
	for uid, a := range s.arriving {
		if look, seen := s.observed[uid]; seen && look.at.After(a.since) || time.Since(a.since) > arrivalKept {
			delete(s.arriving, uid)
			continue
		}
		out[uid] = a
	}
	return out
}

// left drops a session that ended, or was suspended, before the first look.
func (s *Sensor) left(v statekv.Versioned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.arriving[v.UID]; a != nil && v.Version > a.version {
		delete(s.arriving, v.UID)
	}
}
