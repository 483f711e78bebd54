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
	// Notify is to say that a suspend is near, or to ask whether it may be, and to tell
	// the View that it was said. Until then the session isn't suspended.
	Notify Verdict = "notify"
)

// Decision is a verdict with its reasons.
type Decision struct {
	Verdict  Verdict
	Reason   string               // one line for a person
	Next     time.Time            // when to decide again if nothing is heard; zero: no need
	Due      time.Time            // when something happens to the session then; zero: that isn't known
	Blockers []schemas.WaitingFor // what stands between the session and its suspend
	Pause    schemas.PauseReason  // of a suspend: for idleness, or for its age
	Fresh    schemas.Cause        // of a wake: why its command is started again in place of its image, if it is
	Asks     bool                 // of a notice: an answer puts the suspend off
	Evidence schemas.Evidence
}

// Decide says what should happen to the session at now. It changes nothing.
func Decide(v *View, p Policy, now time.Time) Decision {
	if v.Record.Archived != nil {
		return Decision{Verdict: Leave, Reason: "it is archived; activity doesn't bring it back, `diapause resume` does"}
	}
	switch v.Record.State {
	case schemas.Running:
		return decideRunning(v, p, now)
	case schemas.Suspended:
		return decideSuspended(v, p, now)
	}
	return Decision{Verdict: Leave, Reason: inBetween[v.Record.State]}
}

// inBetween is what happens in the states in which nothing is decided.
var inBetween = map[schemas.State]string{
	schemas.Starting:   "its command is being started",
	schemas.Suspending: "its image is being written; activity can still undo that",
	schemas.Resuming:   "its image is being read",
	schemas.Exited:     "its command has ended; activity doesn't bring it back",
	schemas.Failed:     "activity doesn't bring it back; `diapause history` says why, `diapause resume` tries its last snapshot again if it has one",
	schemas.Deleted:    "it is being removed",
	schemas.Template:   "it is a template, which never runs",
}

func decideRunning(v *View, p Policy, now time.Time) Decision {
	idle := now.Sub(v.IdleSince())
	// What spoke of an earlier session of that name was known, too: else its last
	// words would undo every suspend of this one.
	d := Decision{Verdict: Leave, Evidence: schemas.Evidence{
		Seq: max(v.known.Seq, v.Record.Born), Last: v.known.Last.What, LastAt: v.known.Last.At, IdleMS: idle.Milliseconds(), GraceMS: p.Grace.Milliseconds(),
	}}
	d.Blockers = v.blockers(p, now)
	// Everything that blocks has to end: the last of those whose end is known
	// is when to look again; one without an end is heard of when it ends.
	for _, b := range d.Blockers {
		if b.Until.IsZero() {
			d.Next = time.Time{}
			break
		}
		d.Next = latest(d.Next, b.Until)
	}
	d.Due = d.Next
	if p.lead() > 0 && (len(d.Blockers) == 0 || !d.Next.IsZero()) {
		v.notice(p, &d, now)
	}
	switch {
	case len(d.Blockers) > 0:
		d.Reason = d.Blockers[0].What
	case v.idleAt(p).After(now) || p.Never:
		d.Verdict, d.Pause = Suspend, schemas.PauseExpired
		d.Reason = fmt.Sprintf("expired: it ran for %s, its policy allows %s in one go", now.Sub(v.born()).Round(100*time.Millisecond), p.Life)
	default:
		d.Verdict, d.Pause = Suspend, schemas.PauseInactivity
		d.Reason = fmt.Sprintf("idle for %s, grace %s", idle.Round(100*time.Millisecond), p.Grace)
	}
	return d
}

// notice puts a word before a suspend that is near. Nothing is said while a lease lives:
// it may be renewed for hours.
func (v *View) notice(p Policy, d *Decision, now time.Time) {
	kind := schemas.WaitingWarning
	if p.Ask > 0 {
		kind = schemas.WaitingQuestion
	}
	block := func(until time.Time, what string) {
		d.Blockers = append(d.Blockers, schemas.WaitingFor{Kind: kind, What: what, Until: until})
	}
	lead, due := p.lead(), latest(d.Next, now)
	if ends := v.leasedUntil(p); ends.After(now) {
		d.Next, d.Due = ends, latest(due, ends.Add(lead))
		return
	}
	if said := v.known.Noticed; !said.IsZero() && !said.Before(v.IdleSince()) {
		if until := said.Add(lead); until.After(now) {
			what := "it was said that it is to be suspended"
			if p.Ask > 0 {
				what = "it was asked whether it may be suspended; a hold named " + schemas.AnswerKey + " puts that off"
			}
			block(until, what)
			d.Next = latest(d.Next, until)
			d.Due = d.Next
		}
		return
	}
	if at := due.Add(-lead); at.After(now) {
		d.Next = at
		return
	}
	d.Verdict, d.Asks, d.Next = Notify, p.Ask > 0, latest(due, now.Add(lead))
	d.Due = d.Next
	block(d.Next, "it hasn't been said yet that it is to be suspended")
}

// leasedUntil is when the last lease ends that counts; the zero time if there is none.
func (v *View) leasedUntil(p Policy) (end time.Time) {
	for _, l := range v.known.Leases {
		end = latest(end, v.ends(l, p))
	}
	return end
}

// ends is until when a lease counts; the zero time if it doesn't at all.
func (v *View) ends(l Lease, p Policy) time.Time {
	if !p.hears(l.kind(), l.What) {
		return time.Time{}
	}
	if l.What == answer && p.Defer > 0 {
		for _, most := range []time.Time{l.At.Add(p.Defer), v.deferrable(p)} {
			if most.Before(l.Until) {
				l.Until = most
			}
		}
	}
	return l.Until
}

// idleAt is when its grace is over.
func (v *View) idleAt(p Policy) time.Time { return v.IdleSince().Add(p.Grace) }

// born is when it came to run, as its record says, unless that is still to come by this
// host's clock.
func (v *View) born() time.Time {
	if s := v.Record.Since; !s.IsZero() && s.Before(v.known.Since) {
		return s
	}
	return v.known.Since
}

// expires is when it has run for long enough. Those who keep it awake have to have had
// the time to say so.
func (v *View) expires(p Policy) time.Time {
	return latest(v.born().Add(p.Life), v.HeardSince.Add(min(p.Grace, schemas.DefaultLease)))
}

func (v *View) blockers(p Policy, now time.Time) []schemas.WaitingFor {
	var out []schemas.WaitingFor
	block := func(kind schemas.WaitingKind, subject string, until time.Time, what string) {
		out = append(out, schemas.WaitingFor{Kind: kind, Subject: subject, What: what, Until: until})
	}
	if op := v.Record.Op; op != nil {
		block(schemas.WaitingOperation, op.Kind, time.Time{}, v.Record.Underway())
	}
	if p.Never && p.Life == 0 {
		block(schemas.WaitingNever, "", time.Time{}, "it is never suspended for idleness (--idle never)")
	}
	for _, l := range v.known.Leases {
		if until := v.ends(l, p); until.After(now) {
			block(schemas.WaitingLease, l.What, until, l.describe())
		}
	}
	slices.SortFunc(out, func(a, b schemas.WaitingFor) int { return cmp.Compare(a.What, b.What) })
	out = append(out, v.failed(p, now)...)
	if w := v.unused(p); w.Until.After(now) {
		out = append(out, w)
	}
	if resumed := v.Record.Boot != "" && v.Record.Boot != schemas.BootClean; resumed && v.known.Since.Add(p.Awake).After(now) {
		block(schemas.WaitingAwake, "", v.known.Since.Add(p.Awake), fmt.Sprintf("it came back %s ago and stays for %s at least", now.Sub(v.known.Since).Round(time.Second), p.Awake))
	}
	for _, hours := range p.Quiet {
		if until, ok := hours.Until(now); ok {
			block(schemas.WaitingQuiet, "", until, "quiet hours: nothing is suspended now")
		}
	}
	return out
}

// InUse says what a running session is used for at now, and until when at least; "" if it isn't in
// use: nothing counted for its grace, counted from when its reader began to hear at the earliest,
// and no lease lives. What keeps a session awake that isn't used is left out.
func (v *View) InUse(p Policy, now time.Time) (what string, until time.Time) {
	if until = v.idleAt(p); until.After(now) {
		what = fmt.Sprintf("nothing counted since it came to run, or was heard of; the grace is %s", p.Grace)
		if v.IdleSince().Equal(v.known.Last.At) {
			what = fmt.Sprintf("last activity: %s; the grace is %s", v.known.Last.What, p.Grace)
		}
	}
	for _, l := range v.known.Leases {
		if end := v.ends(l, p); end.After(now) && (what == "" || end.After(until)) {
			what, until = l.describe(), end
		}
	}
	return what, until
}

// Held says until when a session is held, in whichever state it is; the zero time if it isn't.
func (v *View) Held(p Policy, now time.Time) (until time.Time) {
	for _, l := range v.known.Leases {
		if end := v.ends(l, p); l.kind() == schemas.KindHold && l.What != answer && end.After(now) {
			until = latest(until, end)
		}
	}
	return until
}

// failed says what keeps a session awake since suspends of it failed.
func (v *View) failed(p Policy, now time.Time) []schemas.WaitingFor {
	f := v.Record.Failure
	if f == nil || f.Op != schemas.OpSuspend {
		return nil
	}
	// One that is to be stopped then was in use when that was looked at, or it would be: it is
	// tried again.
	if f.Count >= p.Breaker && cmp.Or(v.Record.OnBreaker, p.OnBreaker) != schemas.BreakerStop {
		return []schemas.WaitingFor{{Kind: schemas.WaitingBreaker, What: fmt.Sprintf("the breaker is open, its last %d suspends failed: %s; `diapause suspend` tries again, with --reset when idle", f.Count, f.Text)}}
	}
	if until := f.At.Add(p.Backoff); until.After(now) && !f.At.After(now.Add(p.Backoff)) { // else a clock was set back
		return []schemas.WaitingFor{{Kind: schemas.WaitingRetry, What: "its last suspend failed: " + f.Text, Until: until}}
	}
	return nil
}

// unused is when the session has been unused for long enough, or has run for long
// enough, and what that is counted from.
func (v *View) unused(p Policy) (w schemas.WaitingFor) {
	if !p.Never {
		w = schemas.WaitingFor{Kind: schemas.WaitingGrace, Until: v.idleAt(p), What: "nothing counted since it came to run"}
		if v.IdleSince().Equal(v.known.Last.At) {
			w.Subject, w.What = v.known.Last.What, "last activity: "+v.known.Last.What
		}
		w.What += fmt.Sprintf("; the grace is %s", p.Grace)
	}
	if e := v.expires(p); p.Life > 0 && (p.Never || e.Before(w.Until)) {
		return schemas.WaitingFor{Kind: schemas.WaitingLife, Until: e, What: fmt.Sprintf("it may run for %s in one go", p.Life)}
	}
	return w
}

func (l Lease) describe() string {
	out := l.What
	if l.Reason != "" {
		out += ": " + l.Reason
	}
	if l.From != "" && l.From != fromOthers {
		out += " (" + schemas.Whose(l.From) + ")"
	}
	return out
}

// decideSuspended wakes a session for activity that came after the decision to
// suspend it: what came earlier was known then. While its frozen processes are
// still there its worker looks after that: it has only to thaw them. After a
// resume that failed it takes a pause, so that a client that asks and asks
// doesn't fill the log.
func decideSuspended(v *View, p Policy, now time.Time) Decision {
	d := Decision{Verdict: Leave, Reason: "it sleeps until it is used", Evidence: schemas.Evidence{Seq: max(v.known.Seq, v.Record.Born)}}
	pause := Retry(v.Record.Failure, v.known.Since, p)
	switch {
	case v.Record.Op != nil:
		d.Reason = "its frozen processes are being removed"
	case v.known.Waking.Seq <= v.Record.Seq:
	case pause.After(now):
		d.Reason, d.Next, d.Due = "its last resume failed a moment ago; activity resumes it again soon", pause, pause
	default:
		d.Verdict, d.Reason = Wake, "activity: "+v.known.Waking.What
		if d.Fresh = Fresh(v.Record, p); d.Fresh != "" {
			d.Reason += "; " + d.Fresh.Phrase() + ", so its command starts again"
		}
		d.Evidence = schemas.Evidence{Seq: v.known.Waking.Seq, Activity: v.known.Waking.What}
	}
	return d
}

// Undoes reports whether activity that came during a suspend undoes it: of one
// decided for idleness, all that counts; of one that a client asked for, what
// wakes, unless it goes on at once on another host. An answer to a question comes too late for that: what answers every question
// can put a suspend off for no longer than the policy says.
func Undoes(op schemas.Op, src schemas.Source, a schemas.Activity, p Policy) bool {
	e := p.EffectOf(src, a)
	if late := p.Defer > 0 && src.Kind == schemas.KindHold && src.Key == schemas.AnswerKey; op.Idle && !late {
		return e.Counts
	}
	return e.Wakes && op.Move == nil // a session that moves runs soon anyway
}
