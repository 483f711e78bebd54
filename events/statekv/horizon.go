package statekv

import (
	"sync"

	"github.com/diapause/diapause/schemas"
)

// horizon is the newest revision of each record that a store has written or read.
// Reads may be answered by a deposed leader: without this a worker
// could be shown `suspending` after its own `suspended` was stored, and thaw what
// an image has replaced. It is safe for concurrent use.
type horizon struct {
	mu   sync.Mutex
	revs map[schemas.Name]uint64
	top  uint64 // the newest of all
	id   string // of its transition
}

func newHorizon() *horizon { return &horizon{revs: map[schemas.Name]uint64{}} }

func (h *horizon) at(n schemas.Name) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revs[n]
}

// reach notes a revision. One of a session that is gone, with nothing left to do,
// is forgotten, so that names that are used once cost nothing.
func (h *horizon) reach(v Versioned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.Rev.seq > h.top {
		h.top, h.id = v.Rev.seq, v.Transition.ID
	}
	switch n := v.Name(); {
	case v.Rev.seq < h.revs[n]:
	case v.State == schemas.Deleted && v.Op == nil:
		delete(h.revs, n)
	default:
		h.revs[n] = v.Rev.seq
	}
}

func (h *horizon) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.revs)
	h.top, h.id = 0, ""
}

func (h *horizon) newest() (seq uint64, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.top, h.id
}
