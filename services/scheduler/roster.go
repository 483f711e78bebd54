package scheduler

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// roster has the names of all sessions that there are, for those who ask from other goroutines. It
// keeps a number of each name, and takes two names of one number for the same.
type roster struct {
	seed maphash.Seed

	mu    sync.RWMutex
	names map[uint64]struct{}
}

func newRoster() *roster { return &roster{seed: maphash.MakeSeed(), names: map[uint64]struct{}{}} }

func (r *roster) number(n schemas.Name) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(string(n.Tenant))
	h.WriteByte('.')
	h.WriteString(string(n.Session))
	return h.Sum64()
}

// see takes in a record.
func (r *roster) see(rec *schemas.SessionRecord) {
	number := r.number(rec.Name())
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.State == schemas.Deleted && rec.Op == nil {
		delete(r.names, number)
		return
	}
	r.names[number] = struct{}{}
}

func (r *roster) has(n schemas.Name) bool {
	number := r.number(n)
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.names[number]
	return ok
}

// found takes in a record that was read.
func (s *Scheduler) found(ctx context.Context, g statekv.Glance) {
	if s.roster != nil {
		s.roster.see(&g.Record)
	}
	s.records.put(ctx, g)
}

// Known reports whether there is a session of a name, as far as its record was read; true before all
// records were, or without Options.Roster. It may be called by many goroutines at once.
func (s *Scheduler) Known(n schemas.Name) bool {
	select {
	case <-s.known:
		return s.roster == nil || s.roster.has(n)
	default:
		return true
	}
}

// Unheard counts a session of which activity was refused, since it has no record.
func (s *Scheduler) Unheard() { s.intake.Stranger(false) }
