package api

import (
	"context"
	"errors"
	"slices"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/queue"
)

// hostless are the sessions that have never had a host: those that wait for one, and those that were
// removed while they did and whose record doesn't say yet that this is done. They are of a board.
type hostless struct {
	names map[schemas.Name]struct{}
	news  chan struct{} // holds a token after one came, went or changed
}

func (h *hostless) see(n schemas.Name, r *schemas.SessionRecord) {
	_, was := h.names[n]
	is := r.Queued() || halfRemoved(*r)
	switch {
	case is:
		h.names[n] = struct{}{}
	case was:
		delete(h.names, n)
	default:
		return
	}
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// halfRemoved reports whether a session was removed that never had a host, and its record doesn't say yet that this
// is done. No host does it.
func halfRemoved(r schemas.SessionRecord) bool {
	return r.State == schemas.Deleted && r.NeverPlaced()
}

// anyHostless reports whether there are any.
func (b *board) anyHostless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.hostless.names) > 0
}

// withoutHost gives the records of those.
func (b *board) withoutHost() (all []schemas.SessionRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := range b.hostless.names {
		all = append(all, b.records[n].record())
	}
	return all
}

// inLine lists the sessions that wait for a host, in their order.
func (b *board) inLine() []queue.Waiting { return queue.Of(slices.Values(b.withoutHost())) }

// queued reports whether a session waits for a host, as far as is known here.
func (b *board) queued(n schemas.Name) bool {
	b.mu.Lock()
	_, there := b.hostless.names[n]
	b.mu.Unlock()
	if !there {
		return false
	}
	r, ok := b.get(n)
	return ok && r.Queued()
}

// Queued counts the sessions that wait for a host.
func (s *Server) Queued() int { return len(s.board.inLine()) }

// ofHosted are the verbs for sessions that have come to a host.
var ofHosted = []string{"fork", templateCreate, "move", "suspend", "checkpoint", "resume", "ensure", "rollback", "replace", "reach", "archive"}

// hosted refuses what can't be done to a session that waits for a host.
func (s *Server) hosted(ctx context.Context, verb string, req schemas.Request) error {
	if !slices.Contains(ofHosted, verb) || !s.board.anyHostless() {
		return nil
	}
	n, err := schemas.ParseName(req.Name)
	if err != nil || !s.board.queued(n) {
		return nil // the verb says what is wrong
	}
	v, err := s.records.Get(ctx, n)
	if err != nil || !v.Queued() {
		return nil // it has a host since
	}
	place := ""
	if p, ok := queue.Places(s.board.inLine())[v.UID]; ok {
		place = ", " + p.Standing()
	}
	return schemas.StateError(schemas.ReasonNoRoom, "session %s waits for room on a host%s", n, place).
		WithHint("`diapause attach %s` waits with it, `diapause explain %s` says why, `diapause rm %s` removes it", n, n, n)
}

// dropQueued removes a session that waits for a host. No host has anything of it, so its record is all
// there is to change. An error may be statekv.ErrConflict: it has a host now.
func (s *ender) dropQueued(ctx context.Context, v statekv.Versioned, req request, reason string) (statekv.Versioned, error) {
	op, err := s.sessions.newOp(ctx, schemas.OpRemove)
	if err != nil {
		return v, err
	}
	ch, stop := s.board.follow(v.Name())
	defer stop()
	next, err := s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TRemove, Reason: reason, Set: schemas.Set{Op: op}})
	if err != nil {
		return v, err
	}
	if err := s.sessions.removed(ctx, next, req.by.Actor()); err != nil {
		return next, err
	}
	return await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version > next.Version), nil })
}

// removed ends the removal of a session that never had a host. Another may have done so.
func (s *sessions) removed(ctx context.Context, v statekv.Versioned, actor string) error {
	_, err := s.records.Swap(ctx, v, schemas.Transition{Type: schemas.TRemoved, Reason: "it never came to a host", Actor: actor, Op: v.Op.ID})
	if errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) {
		return nil
	}
	return err
}
