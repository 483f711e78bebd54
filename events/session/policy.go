package session

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// Policy is what one session is held to, all layers of schemas.Policy put together.
type Policy struct {
	Class string
	Grace time.Duration // without activity that counts, before a suspend
	Never bool          // never suspended for idleness
	// Deaf are the leases that don't count: keys of busy and presence, "busy.cpu" and
	// the like.
	Deaf map[string]bool
	// Awake is the least time that it runs after a resume, Life the most that it runs in
	// one go; no limit if zero.
	Awake, Life time.Duration
	// Warn is how long before a suspend that is said.
	Warn time.Duration
	// Ask is how long before a suspend it is asked whether it may be; not at all if zero.
	// One answer puts it off by Defer at most, all of them by Deferrals.
	Ask, Defer, Deferrals time.Duration
	// Quiet are the hours in which nothing is suspended.
	Quiet []schemas.Span
	// Breaker is how many failed suspends in a row stop further ones.
	Breaker int
	// Backoff is the least time between a failed suspend and the next.
	Backoff time.Duration
	// OnBreaker is what becomes of a session whose breaker opened, where its record
	// doesn't say.
	OnBreaker schemas.OnBreaker
	// OnResume is what becomes of a suspended session whose image is of no use, where its record
	// doesn't say.
	OnResume schemas.OnResume
	// Wake are the classes of requests that resume the session; nil where no policy says.
	Wake []schemas.WakeRule
	// Rehearse is which suspends are rehearsed.
	Rehearse schemas.Rehearse
	// Redact is of what secrets are taken out.
	Redact schemas.Redact
	// Score says which session makes room first where there is none.
	Score Weights
	// Checkpoints are the triggers that make one.
	Checkpoints schemas.Triggers
	// Keep is which snapshots are kept; what it leaves out is the janitor's to say.
	Keep schemas.Keep

	counts, wakes kinds
}

// kinds is a set of kinds of activity.
type kinds uint16

func kindsOf(all []schemas.Kind) (out kinds) {
	for _, k := range all {
		out |= bit(k)
	}
	return out
}

func (s kinds) has(k schemas.Kind) bool { return s&bit(k) != 0 }

func bit(k schemas.Kind) kinds {
	switch k {
	case schemas.KindInput:
		return 1
	case schemas.KindExec:
		return 1 << 1
	case schemas.KindHTTP:
		return 1 << 2
	case schemas.KindHeartbeat:
		return 1 << 3
	case schemas.KindOutput:
		return 1 << 4
	case schemas.KindPresence:
		return 1 << 5
	case schemas.KindBusy:
		return 1 << 6
	case schemas.KindHold:
		return 1 << 7
	case schemas.KindAgent:
		return 1 << 8
	}
	return 0
}

// What counts and what wakes where no policy says.
const (
	builtinWakes  kinds = 1 | 1<<1 | 1<<2
	builtinCounts kinds = builtinWakes | 1<<3 | 1<<5 | 1<<6 | 1<<7 | 1<<8
)

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

// unknownGrace is that of a class which a later version made: the longest there is, since
// nothing is known of what such sessions are for.
const unknownGrace = 5 * time.Minute

// PolicyFor gives the policy of a class with a session's own rule on top, where no
// other was set; ok is false if this version knows no such class.
func PolicyFor(class string, own *schemas.Idle) (p Policy, ok bool) {
	grace, ok := graces[class]
	if !ok {
		grace = unknownGrace
	}
	p = Policy{
		Class: class, Grace: grace, Breaker: 3, Backoff: 10 * time.Second, Rehearse: schemas.RehearseAlways, Score: DefaultWeights(),
		counts: builtinCounts, wakes: builtinWakes,
	}
	return p.Ruled(own), ok
}

// Ruled gives the policy with the rule on top that a session was run with.
func (p Policy) Ruled(own *schemas.Idle) Policy {
	if own == nil {
		return p
	}
	p.Never = own.Never
	if own.Grace > 0 {
		p.Grace = time.Duration(own.Grace) * time.Millisecond
	}
	return p
}

// With gives the policy with what w says on top; what w leaves out stays. w is valid.
func (p Policy) With(w schemas.Policy) Policy {
	set(&p.Grace, w.Grace)
	set(&p.Awake, w.Awake)
	set(&p.Life, w.Life)
	set(&p.Warn, w.Warn)
	set(&p.Backoff, w.Backoff)
	if w.Never != nil {
		p.Never = *w.Never
	} else if w.Grace != nil {
		p.Never = false // a grace that is given later is meant
	}
	if w.Counts != nil {
		p.counts = kindsOf(w.Counts)
	}
	if w.Wakes != nil {
		p.wakes = kindsOf(w.Wakes)
	}
	if w.Ignore != nil {
		p.Deaf = map[string]bool{}
		for _, what := range w.Ignore {
			p.Deaf[what] = true
		}
	}
	if w.Ask != nil {
		p.Ask, p.Defer = time.Duration(w.Ask.For), time.Duration(w.Ask.Defer)
		p.Deferrals = time.Duration(w.Ask.Times) * p.Defer
	}
	if w.Quiet != nil {
		p.Quiet = spans(w.Quiet)
	}
	if w.Breaker != nil {
		p.Breaker = *w.Breaker
	}
	if w.OnBreaker != "" {
		p.OnBreaker = w.OnBreaker
	}
	if w.Wake != nil {
		p.Wake = w.Wake
	}
	if w.OnResume != "" {
		p.OnResume = w.OnResume
	}
	if w.Rehearse != "" {
		p.Rehearse = w.Rehearse
	}
	if w.Redact != "" {
		p.Redact = w.Redact
	}
	if w.Checkpoints != nil {
		p.Checkpoints = w.Checkpoints
	}
	p.Score = p.Score.with(w.Score)
	if w.Keep != nil {
		p.Keep = *schemas.Policy{Keep: w.Keep}.Over(schemas.Policy{Keep: &p.Keep}).Keep
	}
	return p
}

func set(to *time.Duration, d *schemas.Duration) {
	if d != nil {
		*to = time.Duration(*d)
	}
}

func spans(hours []schemas.Hours) []schemas.Span {
	var out []schemas.Span
	for _, h := range hours {
		if s, err := h.Span(); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// with gives the weights with what was set on top.
func (w Weights) with(s *schemas.Score) Weights {
	if s == nil {
		return w
	}
	for _, f := range []struct {
		to *float64
		v  *float64
	}{{&w.Base, s.Base}, {&w.IdleHour, s.IdleHour}, {&w.Command, s.Command}, {&w.ByPerson, s.ByPerson}} {
		if f.v != nil {
			*f.to = *f.v
		}
	}
	if s.Commands != nil {
		w.Commands = *s.Commands
	}
	return w
}

// Pressed gives the policy for a time in which there isn't room for all: a shorter
// grace, and no warning or question, since there is no time for it.
func (p Policy) Pressed(yield time.Duration) Policy {
	p.Grace = min(p.Grace, yield)
	p.Warn, p.Ask = 0, 0
	return p
}

// lead is how long before a suspend something is said of it.
func (p Policy) lead() time.Duration {
	if p.Ask > 0 {
		return p.Ask
	}
	return p.Warn
}

// hears reports whether a lease counts, by its kind and key.
func (p Policy) hears(k schemas.Kind, what string) bool {
	return p.counts.has(k) && (len(p.Deaf) == 0 || !p.Deaf[what])
}

// Effect is what one message of activity does.
type Effect struct {
	Counts bool // it refreshes the grace, and undoes an idle suspend under way
	Wakes  bool // it resumes a suspended session, and undoes any suspend under way
	Lease  bool // it is one, and counts for as long as it lives, if its kind does
}

// EffectOf says what activity does under the policy.
func (p Policy) EffectOf(src schemas.Source, a schemas.Activity) Effect {
	e := Effect{Lease: src.Kind.Lease()}
	if a.Intent == schemas.IntentReconnect {
		return e
	}
	e.Counts, e.Wakes = p.counts.has(src.Kind), p.wakes.has(src.Kind)
	if e.Lease && e.Counts {
		e.Counts = !a.Released && (len(p.Deaf) == 0 || !p.Deaf[string(src.Kind)+"."+src.Key])
	}
	return e
}
