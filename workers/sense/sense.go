package sense

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Options is what a Sensor is made of. All fields are needed.
type Options struct {
	Host    schemas.HostID
	Records interface {
		Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	}
	Bus interface {
		Activity(ctx context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error)
	}
	Drivers map[schemas.DriverName]driver.Driver
	Every   time.Duration // between two looks at a session
	Log     *slog.Logger
}

// Sensor observes the sessions that run on one host. It is safe for concurrent use.
type Sensor struct {
	Options

	mu       sync.Mutex
	observed map[schemas.UID]sighting // what the last look saw
	arriving map[schemas.UID]*arrival // sessions that come to run, until the first look
}

// New makes a Sensor; Serve runs it.
func New(o Options) *Sensor {
	return &Sensor{Options: o, observed: map[schemas.UID]sighting{}, arriving: map[schemas.UID]*arrival{}}
}

// sighting is one look at a session.
type sighting struct {
	at     time.Time
	seen   driver.Observation
	pid    int
	leases map[string]time.Time // by key: when the lease was last published
	typed  typed
	input  time.Time // the last of its desktop that was said

	age
}

// age is what looks at a session tell of the age of its last snapshot. Taking one uses CPU time of the session,
// too: what it does then isn't looked at. So of a session that stood still before that is supposed
// for the moment after, until the first look; one that did not counts as changed.
type age struct {
	snapshot  time.Time     // when the last one was taken; zero if there is none
	unchanged bool          // the session has executed nothing since
	still     bool          // nor between the last two looks
	cpu       time.Duration // at the last look that counts
}

// after gives the age at a look that follows another one: looked is false if there was none. busy says that an
// operation is under way.
func (a age) after(last age, looked, busy bool) age {
	moved := !looked || last.cpu != a.cpu
	switch {
	case looked && busy:
		return last
	case looked && !last.snapshot.Equal(a.snapshot):
		a.still, a.unchanged = last.still, last.still
	default:
		a.still, a.unchanged = !moved, last.unchanged && !moved
	}
	return a
}

// takenAt is when the last snapshot of a session was taken; zero if it has none.
func takenAt(r schemas.SessionRecord) time.Time {
	if r.Size == nil {
		return time.Time{}
	}
	return r.Size.At
}

// firstLook is how soon a session that came to run is looked at, so that lists show its
// memory.
const firstLook = 50 * time.Millisecond

// Serve looks at the sessions that run here until ctx ends, and publishes as leases what says
// that they are in use: a build must not be suspended because no one typed.
func (s *Sensor) Serve(ctx context.Context) error {
	running := map[schemas.Name]statekv.Versioned{}
	updates := make(chan statekv.Versioned, 64)
	done := make(chan error, 1)
	go func() {
		done <- s.Records.Watch(ctx, func(v statekv.Versioned) {
			select {
			case updates <- v:
			case <-ctx.Done():
			}
		}, func() {})
	}()
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	first := time.NewTimer(firstLook)
	defer first.Stop()
	for {
		looks := tick.C
		if len(running) == 0 {
			looks = nil
		}
		select {
		case v := <-updates:
			if v.Host == s.Host && v.State == schemas.Running {
				running[v.Name()] = v
				if !s.current(v) {
					first.Reset(firstLook)
				}
				continue
			}
			s.left(v)
			if old, ok := running[v.Name()]; ok {
				delete(running, v.Name())
				s.forget(old.UID)
			}
		case <-first.C:
			for _, v := range running {
				if !s.current(v) {
					s.observe(ctx, v)
				}
				if !s.seen(v.UID) {
					first.Reset(firstLook) // it isn't there yet
				}
			}
		case <-looks:
			s.arrivals()
			for _, v := range running {
				s.observe(ctx, v)
			}
		case err := <-done:
			return err
		}
	}
}

func (s *Sensor) seen(uid schemas.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.observed[uid]
	return ok
}

// current reports whether a session was looked at since its last snapshot, if nothing is under way.
func (s *Sensor) current(v statekv.Versioned) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	look, ok := s.observed[v.UID]
	return ok && (v.Op != nil || look.snapshot.Equal(takenAt(v.SessionRecord)))
}

func (s *Sensor) forget(uid schemas.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.observed, uid)
}

// Count gives the number of sessions that the last looks saw.
func (s *Sensor) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.observed)
}

func (s *Sensor) observe(ctx context.Context, v statekv.Versioned) {
	d, ok := s.Drivers[v.Driver].(driver.Observer)
	if !ok {
		return
	}
	o, err := d.Observe(ctx, v.UID)
	if err != nil {
		return // it is being started, or ending: the next look tells
	}
	if o.PID == 0 {
		i, err := s.Drivers[v.Driver].Inspect(ctx, v.UID)
		if err != nil {
			return
		}
		o.PID = i.PID
	}
	now := time.Now()
	s.mu.Lock()
	last, before := s.observed[v.UID]
	next := sighting{at: now, seen: o, pid: o.PID, leases: last.leases}
	if next.leases == nil {
		next.leases = map[string]time.Time{}
	}
	next.typed, next.input = last.typed, last.input
	next.age = age{snapshot: takenAt(v.SessionRecord), cpu: o.CPU}.after(last.age, before, v.Op != nil)
	s.observed[v.UID] = next
	s.mu.Unlock()
	s.count(ctx, v, next)
	s.used(ctx, v, next)
	if before {
		s.report(ctx, v, signs(last, next), next)
	}
}
