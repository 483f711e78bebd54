package api

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	metering "github.com/diapause/diapause/services/usage"
	"github.com/nats-io/nats.go/jetstream"
)

// quotas holds tenants to their quotas. Without policies there are none.
type quotas struct {
	board    *board
	js       jetstream.JetStream
	names    stream.Names
	policies *policykv.Cache
	records  *statekv.Store
}

// policyOf is what a session is held to.
func (s *quotas) policyOf(r schemas.SessionRecord) session.Policy {
	if s.policies == nil {
		p, _ := session.PolicyFor(r.Class, r.Idle)
		return p
	}
	return s.policies.For(r)
}

// claim is what a request takes of a tenant's quota, until the board shows it.
type claim struct {
	name              schemas.Name
	sessions, running int
	uid               schemas.UID // once the record was made that takes it
	version           uint64
}

// weigh says what a record takes. A session that moves runs again at once; what is archived takes nothing.
func weigh(s schemas.State, moves, archived bool) (sessions, running int) {
	if archived {
		return 0, 0
	}
	switch s {
	case schemas.Suspended:
		if moves {
			return 1, 1
		}
	case "", schemas.Deleted, schemas.Template: // that counts by what it takes in the store
		return 0, 0
	case schemas.Starting, schemas.Running, schemas.Suspending, schemas.Resuming:
		return 1, 1
	}
	return 1, 0
}

// claim takes what a transition needs of its tenant's quota, or refuses it. Two requests at
// once to this server don't both get the last place; another server beside it may not have
// heard yet of what this one has just let through.
func (s *quotas) claim(prev statekv.Versioned, t schemas.Transition) (*claim, error) {
	next, err := session.Apply(prev.SessionRecord, t)
	if s.policies == nil || err != nil { // then the swap says so
		return nil, nil
	}
	had, ran := weigh(prev.State, prev.MovingTo() != "", prev.Archived != nil)
	has, runs := weigh(next.State, next.MovingTo() != "", next.Archived != nil)
	c := &claim{name: next.Name(), sessions: has - had, running: runs - ran}
	if c.sessions <= 0 && c.running <= 0 {
		return nil, nil
	}
	return c, s.board.claim(s.policies.Quota(next.Tenant), c)
}

// held is what a tenant has, what was claimed included. It is called with mu held.
func (b *board) heldBy(t schemas.Tenant) (h schemas.Held) {
	if known := b.held[t]; known != nil {
		h = *known
	}
	for _, c := range b.claims[t] {
		h.Sessions, h.Running = h.Sessions+c.sessions, h.Running+c.running
	}
	return h
}

func (b *board) claim(q schemas.Quota, c *claim) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := c.name.Tenant
	if err := within(t, q, b.heldBy(t), c.sessions, c.running); err != nil {
		return err
	}
	b.claims[t] = append(b.claims[t], c)
	return nil
}

// within refuses what would be more than a quota.
func within(t schemas.Tenant, q schemas.Quota, h schemas.Held, sessions, running int) error {
	if most := atMost(q.Sessions); sessions > 0 && most > 0 && h.Sessions+sessions > most {
		return schemas.StateError(schemas.ReasonQuota, "tenant %s has %s, its quota is %d", t, schemas.CountSessions(h.Sessions), most).
			WithHint("remove one (`diapause rm`), or raise it (`diapause policy set tenant:%s quota=sessions:%d`)", t, h.Sessions+sessions)
	}
	if most := atMost(q.Running); running > 0 && most > 0 && h.Running+running > most {
		return schemas.StateError(schemas.ReasonQuota, "tenant %s has %s running, its quota is %d", t, schemas.CountSessions(h.Running), most).
			WithHint("suspend one (`diapause suspend`), or raise it (`diapause policy set tenant:%s quota=running:%d`)", t, h.Running+running)
	}
	return nil
}

func atMost(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// settle ends a claim: with the revision that came of it as soon as the board shows that,
// or at once if none did.
func (b *board) settle(c *claim, v statekv.Versioned, err error) {
	if c == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.uid, c.version = v.UID, v.Version
	if shown, ok := b.records[c.name]; err != nil || ok && c.shownBy(shown) {
		b.drop(c.name.Tenant, func(other *claim) bool { return other == c })
	}
}

// shownBy reports whether a revision counts what was claimed.
func (c *claim) shownBy(s sight) bool {
	return c.version > 0 && (s.uid != c.uid || s.version >= c.version)
}

// mayBegin refuses another session of a tenant whose quota leaves no room for it, before
// anything is done for it.
func (s *quotas) mayBegin(ctx context.Context, t schemas.Tenant) error {
	if s.policies == nil {
		return nil
	}
	q := s.policies.Quota(t)
	s.board.mu.Lock()
	h := s.board.heldBy(t)
	s.board.mu.Unlock()
	if err := within(t, q, h, 1, 1); err != nil {
		return err
	}
	return s.mayStore(ctx, t)
}

// mayStore refuses more of a tenant whose images take all that its quota allows.
func (s *quotas) mayStore(ctx context.Context, t schemas.Tenant) error {
	if s.policies == nil {
		return nil
	}
	q := s.policies.Quota(t)
	if q.Stored == nil || *q.Stored == 0 {
		return nil
	}
	stored, err := s.storedBy(ctx, t)
	if err != nil {
		return err
	}
	if stored >= *q.Stored {
		return schemas.StateError(schemas.ReasonQuota, "the images of tenant %s take %d bytes, its quota is %s", t, int64(stored), *q.Stored).
			WithHint("remove snapshots (`diapause snapshots rm`), sessions or templates, or raise it (`diapause policy set tenant:%s quota=stored:…`)", t)
	}
	return nil
}

// mayWake refuses to wake a session of a tenant whose quota leaves no room for it, before
// that is said to be use.
func (s *quotas) mayWake(v statekv.Versioned) error {
	if _, running := weigh(v.State, v.MovingTo() != "", v.Archived != nil); running > 0 || s.policies == nil {
		return nil
	}
	s.board.mu.Lock()
	h := s.board.heldBy(v.Tenant)
	s.board.mu.Unlock()
	return within(v.Tenant, s.policies.Quota(v.Tenant), h, 0, 1)
}

// storedBy is what usage says that a tenant's images take.
func (s *quotas) storedBy(ctx context.Context, t schemas.Tenant) (schemas.Bytes, error) {
	now := time.Now().UTC()
	report, err := metering.Log{JS: s.js, Names: s.names, Records: s.records}.Report(ctx, metering.Want{Tenant: t, From: now.Add(-time.Second), To: now})
	if err != nil {
		return 0, fmt.Errorf("see what tenant %s has stored, for its quota: %w", t, err)
	}
	var sum schemas.Bytes
	for _, one := range report.Tenants {
		sum += schemas.Bytes(one.StoredBytes)
	}
	return sum, nil
}

// quotas adds the quotas of tenants to what they used.
func (s *quotas) quotas(report *schemas.UsageReport) {
	if s.policies == nil {
		return
	}
	for i := range report.Tenants {
		u := &report.Tenants[i]
		q := s.policies.Quota(u.Tenant)
		if q == (schemas.Quota{}) {
			continue
		}
		s.board.mu.Lock()
		h := s.board.heldBy(u.Tenant)
		s.board.mu.Unlock()
		h.Stored = schemas.Bytes(u.StoredBytes)
		u.Quota, u.Held = &q, &h
	}
}
