package scheduler

import (
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// tracked is what the loop knows of one session. There may be a million of them: what few
// of them need has no field here.
type tracked struct {
	key   string // tenant.session
	view  packed
	rev   statekv.Revision
	host  *host // where it takes a slot; nil if it takes none
	place int32 // in the agenda's queue
	slot  int32 // among its host's; nowhere if it takes none
	rank  int32 // among the sessions of its tenant that run; nowhere if it doesn't

	fresh   bool // it is among those that are decided about next
	acting  bool // a swap for it is under way
	going   bool // it counts as a suspend under way on its host
	waiting bool // its suspend is due, and waits until its host may begin one more
}

// nowhere is the place of a session that isn't in a queue or list.
const nowhere = -1

func (t *tracked) name() schemas.Name {
	tenant, id, _ := strings.Cut(t.key, ".")
	return schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(id)}
}

func (t *tracked) tenant() schemas.Tenant {
	tenant, _, _ := strings.Cut(t.key, ".")
	return schemas.Tenant(tenant)
}

// outbound reports whether a session is being suspended, or is about to be.
func (t *tracked) outbound() bool {
	switch t.view.state() {
	case schemas.Suspending, schemas.Suspended:
		return true
	}
	return t.going
}

// clock counts time from when the loop began.
type clock struct {
	base time.Time // it carries a monotonic clock
}

// now is the time since the loop began.
func (c clock) now() time.Duration { return time.Since(c.base) }

// table holds what is known of every session, and what each is held to.
type table struct {
	clock
	policies   Policies
	sessions   map[string]*tracked
	scratch    []byte               // for a key that is looked up
	unrecorded []string             // heard of before any record, the oldest first
	heardSince time.Time            // no grace began before
	missed     map[string]time.Time // nor that of a session before some of it was missed, by key
}

func newTable(p Policies) *table {
	return &table{clock: clock{time.Now()}, policies: p, sessions: map[string]*tracked{}, missed: map[string]time.Time{}}
}

// unrecordedMost bounds how many sessions without a record are remembered: activity may
// come before the record does, but a flood for names that don't exist must not fill the
// memory. The oldest are dropped first.
const unrecordedMost = 1000

// find looks a session up.
func (t *table) find(n schemas.Name) (*tracked, bool) {
	t.scratch = append(append(append(t.scratch[:0], n.Tenant...), '.'), n.Session...)
	s, ok := t.sessions[string(t.scratch)]
	return s, ok
}

// track gives what is known of a session, which may be nothing.
func (t *table) track(n schemas.Name) *tracked {
	if s, ok := t.find(n); ok {
		return s
	}
	s := &tracked{key: n.Key(), place: nowhere, slot: nowhere, rank: nowhere}
	t.sessions[s.key] = s
	return s
}

// unseen notes that a session is heard of before its record is seen. If there are too many
// of these it gives the oldest, which is to be forgotten unless its record came.
func (t *table) unseen(n schemas.Name) (oldest *tracked, dropped bool) {
	t.unrecorded = append(t.unrecorded, n.Key())
	if len(t.unrecorded) <= unrecordedMost {
		return nil, false
	}
	first := t.unrecorded[0]
	t.unrecorded = t.unrecorded[1:]
	if s, ok := t.sessions[first]; ok && s.view.uid == "" {
		return s, true
	}
	return nil, true
}

// drop forgets a session.
func (t *table) drop(s *tracked) {
	delete(t.sessions, s.key)
	delete(t.missed, s.key)
}

// has reports whether a session is the one that is known by its name.
func (t *table) has(s *tracked) bool { return t.sessions[s.key] == s }

// view is what is known of a session. It is packed again if it is changed.
func (t *table) view(s *tracked) session.View {
	return s.view.unpack(s.name(), t.base, t.heard(s.key))
}

// repack keeps a view whose record is as it was.
func (t *table) repack(s *tracked, v *session.View) { s.view.packHeard(v, t.base) }

// policy is what a session is held to.
func (t *table) policy(v *session.View) session.Policy { return t.policies.For(v.Record) }
