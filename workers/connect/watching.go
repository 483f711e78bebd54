package connect

import (
	"maps"
	"sync"

	"github.com/diapause/diapause/schemas"
)

// watching counts who watches terminals by shares.
type watching struct {
	mu sync.Mutex
	by map[schemas.UID]map[string]int // by session and share; without zeros
}

// come counts one more by a share of a session.
func (w *watching) come(uid schemas.UID, share string) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[schemas.UID]map[string]int{}
	}
	if w.by[uid] == nil {
		w.by[uid] = map[string]int{}
	}
	w.by[uid][share]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.by[uid][share]--; w.by[uid][share] == 0 {
			delete(w.by[uid], share)
		}
		if len(w.by[uid]) == 0 {
			delete(w.by, uid)
		}
	}
}

// Watching says how many watch a session's terminal by each share, by its id; nil if none does.
func (s *Server) Watching(uid schemas.UID) map[string]int {
	s.watching.mu.Lock()
	defer s.watching.mu.Unlock()
	return maps.Clone(s.watching.by[uid])
}
