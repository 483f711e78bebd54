package session

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// Policy is what a class of sessions is held to.
type Policy struct {
	Class string
	Grace time.Duration // without activity that counts, before a suspend
	Never bool          // never suspended for idleness
	// Deaf are the worker's own observations that don't count: keys of busy and
	// presence leases, "busy.cpu" and the like.
	Deaf map[string]bool
	// Breaker is how many failed suspends in a row stop further ones.
	Breaker int
	// Backoff is the least time between a failed suspend and the next.
	Backoff time.Duration
}

// Classes that a session can be made in, with their graces.
var graces = map[string]time.Duration{
	"web":        5 * time.Minute,
	"terminal":   5 * time.Minute,
	"automation": 30 * time.Second,
	"slack":      30 * time.Second,
	"desktop":    5 * time.Minute,
}

// Classes lists the names of the classes.
func Classes() []string { return []string{"web", "terminal", "automation", "slack", "desktop"} }

// PolicyFor gives the policy of a class with a session's own rule on top; ok is
// false if there is no such class.
func PolicyFor(class string, own *schemas.Idle) (p Policy, ok bool) {
	grace, ok := graces[class]
	p = Policy{Class: class, Grace: grace, Breaker: 3, Backoff: 10 * time.Second}
	if own != nil {
		p.Never = own.Never
		if own.Grace > 0 {
			p.Grace = time.Duration(own.Grace) * time.Millisecond
		}
	}
	return p, ok
}

// Effect is what one message of activity does.
type Effect struct {
	Counts bool // it refreshes the grace, and undoes an idle suspend under way
	Wakes  bool // it resumes a suspended session, and undoes any suspend under way
	Lease  bool // it counts for as long as it lives
}

// EffectOf says what activity does under the policy.
func (p Policy) EffectOf(src schemas.Source, a schemas.Activity) Effect {
	if p.Deaf[string(src.Kind)+"."+src.Key] {
		return Effect{}
	}
	switch src.Kind {
	case schemas.KindInput, schemas.KindExec, schemas.KindHTTP:
		return Effect{Counts: a.Intent != schemas.IntentReconnect, Wakes: a.Intent != schemas.IntentReconnect}
	case schemas.KindHeartbeat:
		return Effect{Counts: true}
	case schemas.KindPresence, schemas.KindBusy, schemas.KindHold:
		return Effect{Lease: true, Counts: !a.Released && a.Intent != schemas.IntentReconnect}
	}
	return Effect{}
}
