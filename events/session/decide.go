package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Verdict is what should happen to a session now.
type Verdict string

// The verdicts.
const (
	Leave   Verdict = "leave"
	Suspend Verdict = "suspend"
	Wake    Verdict = "wake"
)

// Decision is a verdict with its reasons.
type Decision struct {
	Verdict  Verdict
	Reason   string               // one line for a person
	Next     time.Time            // when to decide again if nothing is heard; zero: no need
	Blockers []schemas.WaitingFor // what stands between the session and its suspend
	Evidence schemas.Evidence
}

// Decide says what should happen to the session at now. It changes nothing but
// for forgetting leases that have run out.
func Decide(v *View, p Policy, now time.Time) Decision {
	switch v.Record.State {
	case schemas.Running:
		return decideRunning(v, p, now)
	case schemas.Suspended:
		return decideSuspended(v, p, now)
	}
	return Decision{Verdict: Leave, Reason: "it is " + string(v.Record.State)}
}

func decideRunning(v *View, p Policy, now time.Time) Decision {
	idle := now.Sub(v.IdleSince())
	// What spoke of an earlier session of that name was known, too: else its last
	// words would undo every suspend of this one.
	d := Decision{Verdict: Leave, Evidence: schemas.Evidence{
		Seq: max(v.seq, v.Record.Born), Last: v.last.What, LastAt: v.last.At, IdleMS: idle.Milliseconds(), GraceMS: p.Grace.Milliseconds(),
	}}
	d.Blockers = blockers(v, p, now)
	if len(d.Blockers) == 0 {
		d.Verdict = Suspend
		d.Reason = fmt.Sprintf("idle for %s, grace %s", idle.Round(100*time.Millisecond), p.Grace)
		return d
	}
	// Everything that blocks has to end: the last of those whose end is known
	// is when to look again; one without an end is heard of when it ends.
	d.Reason = d.Blockers[0].What
	for _, b := range d.Blockers {
		if b.Until.IsZero() {
			d.Next = time.Time{}
			break
		}
		d.Next = latest(d.Next, b.Until)
	}
	return d
}

func blockers(v *View, p Policy, now time.Time) []schemas.WaitingFor {
	var out []schemas.WaitingFor
	block := func(until time.Time, format string, args ...any) {
		out = append(out, schemas.WaitingFor{What: fmt.Sprintf(format, args...), Until: until})
	}
	if v.Record.Op != nil {
		block(time.Time{}, "%s is under way", v.Record.Op.Kind)
	}
	if p.Never {
		block(time.Time{}, "it is never suspended for idleness (--idle never)")
	}
	for key, l := range v.leases {
		if !l.Until.After(now) {
			delete(v.leases, key)
			continue
		}
		block(l.Until, "%s", l.describe())
	}
	slices.SortFunc(out, func(a, b schemas.WaitingFor) int { return cmp.Compare(a.What, b.What) })
	if f := v.Record.Failure; f != nil && f.Op == schemas.OpSuspend {
		if f.Count >= p.Breaker {
			block(time.Time{}, "the breaker is open, its last %d suspends failed: %s; `diapause suspend` tries again, with --reset when idle", f.Count, f.Text)
		} else if until := f.At.Add(p.Backoff); until.After(now) && !f.At.After(now.Add(p.Backoff)) { // else a clock was set back
			block(until, "its last suspend failed: %s", f.Text)
		}
	}
	if until := v.IdleSince().Add(p.Grace); until.After(now) {
		what := "nothing counted since it came to run"
		if v.IdleSince().Equal(v.last.At) {
			what = "last activity: " + v.last.What
		}
		block(until, "%s; the grace is %s", what, p.Grace)
	}
	return out
}

func (l Lease) describe() string {
	if l.Reason == "" {
		return l.What
	}
	return l.What + ": " + l.Reason
}

// decideSuspended wakes a session for activity that came after the decision to
// suspend it: what came earlier was known then. While its frozen processes are
// still there its worker looks after that: it has only to thaw them. After a
// resume that failed it takes a pause, so that a client that asks and asks
// doesn't fill the log.
func decideSuspended(v *View, p Policy, now time.Time) Decision {
	d := Decision{Verdict: Leave, Reason: "it sleeps until it is used", Evidence: schemas.Evidence{Seq: max(v.seq, v.Record.Born)}}
	f := v.Record.Failure
	pause := v.since.Add(p.Backoff)
	switch {
	case v.Record.Op != nil:
		d.Reason = "its frozen processes are being removed"
	case v.waking.Seq <= v.Record.Seq:
	case f != nil && f.Op == schemas.OpResume && pause.After(now):
		d.Reason, d.Next = "its last resume failed a moment ago; activity resumes it again soon", pause
	default:
		d.Verdict, d.Reason = Wake, "activity: "+v.waking.What
		d.Evidence = schemas.Evidence{Seq: v.waking.Seq, Activity: v.waking.What}
	}
	return d
}

// Undoes reports whether activity that came during a suspend undoes it: of one
// decided for idleness, all that counts; of one that somebody asked for, what
// wakes.
func Undoes(op schemas.Op, src schemas.Source, a schemas.Activity, p Policy) bool {
	e := p.EffectOf(src, a)
	if op.Idle {
		return e.Counts
	}
	return e.Wakes
}
