package scheduler

import (
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// missed are sessions of which some activity wasn't taken, and when that was last. It is told by many goroutines, and has a
// session once, however often that is.
type missed struct {
	some chan struct{} // holds a token while there is something to take

	mu sync.Mutex
	at map[string]time.Time // by key
}

func newMissed() *missed {
	return &missed{some: make(chan struct{}, 1), at: map[string]time.Time{}}
}

func (m *missed) note(n schemas.Name, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[n.Key()] = at
	token(m.some)
}

func (m *missed) take() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.at
	m.at = map[string]time.Time{}
	return all
}

// Missed takes that some activity of a session wasn't taken: its grace starts again, and no other's. It may be called by many
// goroutines at once.
func (s *Scheduler) Missed(n schemas.Name) { s.missed.note(n, time.Now()) }

// miss takes in which sessions said something that wasn't heard.
func (t *table) miss(all map[string]time.Time) {
	for key, at := range all {
		if _, ok := t.sessions[key]; ok {
			t.missed[key] = at
		}
	}
}

// heard is since when all is heard of a session.
func (t *table) heard(key string) time.Time {
	if at, ok := t.missed[key]; ok && at.After(t.heardSince) {
		return at
	}
	return t.heardSince
}
