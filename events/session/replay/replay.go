package replay

import (
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Life is one session from a time to another, and what was said of it meanwhile.
type Life struct {
	// Record holds name, uid, class, made_by, boot and idle rule; its state is Running, or
	// Suspended if it begins asleep.
	Record   schemas.SessionRecord
	From, To time.Time
	Said     []session.Message // in the order of their times and sequences
}

// Costs are what suspends and resumes take.
type Costs struct {
	Suspend, Resume time.Duration
}

// Nap is a time in which a session was suspended.
type Nap struct {
	From, To time.Time // from the decision to suspend it, to the one to wake it or the end
	Woken    bool      // it ended with a wake
	Expired  bool      // it was suspended for its age
}

// Wrong reports whether it was resumed so soon that it had better not been suspended.
func (n Nap) Wrong() bool { return n.Woken && n.To.Sub(n.From) < soon }

// run is one life that is being lived.
type run struct {
	Life
	costs  Costs
	policy session.Policy
	view   session.View
	now    time.Time
	due    time.Time // when to decide; zero: not before something is heard
	next   int       // in Said
	nap    Nap       // while it is suspended
	naps   []Nap
}

// Run lives a life under a policy.
func Run(l Life, p session.Policy, c Costs) []Nap {
	r := run{Life: l, costs: c, policy: p, now: l.From, due: l.From}
	r.view.HeardSince = l.From
	if l.Record.State == schemas.Suspended {
		r.nap = Nap{From: l.From}
	}
	r.view.See(l.Record, l.From)
	for r.now.Before(r.To) {
		r.hear()
		if !r.due.IsZero() && !r.due.After(r.now) {
			r.decide()
		}
		r.skip()
	}
	if !r.nap.From.IsZero() {
		r.nap.To = r.To
		r.naps = append(r.naps, r.nap)
	}
	return r.naps
}

// skip goes to when something happens next.
func (r *run) skip() {
	at := r.To
	if !r.due.IsZero() && r.due.Before(at) {
		at = r.due
	}
	if r.next < len(r.Said) && r.Said[r.next].At.Before(at) {
		at = r.Said[r.next].At
	}
	r.now = at
}

// hear takes in what is said now. As a scheduler does, it looks at the session earlier
// than was known only for what wakes it and for a lease that ends earlier.
func (r *run) hear() {
	for ; r.next < len(r.Said) && !r.Said[r.next].At.After(r.now); r.next++ {
		m := r.Said[r.next]
		r.view.Hear(m, r.policy)
		switch {
		case r.asleep() && r.undone(m):
			r.wakes(r.view.Record.Boot)
		case r.asleep():
			r.due = r.now
		case m.Source.Kind.Lease():
			r.sooner(end(m))
		}
	}
}

func end(m session.Message) time.Time {
	ttl := time.Duration(m.Activity.TTL)
	switch {
	case m.Activity.Released:
		return m.At
	case ttl <= 0:
		return m.At.Add(schemas.DefaultLease)
	}
	return m.At.Add(ttl)
}

func (r *run) sooner(at time.Time) {
	if !r.due.IsZero() && at.Before(r.due) {
		r.due = at
	}
}

func (r *run) asleep() bool { return r.view.Record.State == schemas.Suspended }

// undone reports whether a message comes while the suspend is still under way, and takes
// it back.
func (r *run) undone(m session.Message) bool {
	return m.At.Before(r.nap.From.Add(r.costs.Suspend)) && session.Undoes(schemas.Op{Idle: true}, m.Source, m.Activity, r.policy)
}

// wakes has the session run again.
func (r *run) wakes(boot schemas.Boot) {
	r.nap = Nap{}
	rec := r.view.Record
	rec.State, rec.Boot, rec.Since, rec.Seq = schemas.Running, boot, r.now, r.view.Seq()
	r.view.See(rec, r.now)
	r.due = r.now
}

func (r *run) decide() {
	r.view.Forget(r.policy, r.now)
	d := session.Decide(&r.view, r.policy, r.now)
	r.due = d.Next
	switch d.Verdict {
	case session.Notify:
		r.view.Notified(r.now)
	case session.Suspend:
		r.nap = Nap{From: r.now, Expired: d.Pause == schemas.PauseExpired}
		rec := r.view.Record
		rec.State, rec.Since, rec.Seq = schemas.Suspended, r.now, d.Evidence.Seq
		r.view.See(rec, r.now)
		r.due = time.Time{}
	case session.Wake:
		r.nap.To, r.nap.Woken = r.now, true
		r.naps = append(r.naps, r.nap)
		r.now = r.now.Add(r.costs.Resume)
		r.wakes(schemas.BootResume)
	}
}

// soon is how early a resume shows that its suspend was wrong.
const soon = 2 * time.Minute

// Sum adds what came of a life to an outcome. bytes is what the session takes in memory
// while it runs.
func Sum(o *schemas.Outcome, naps []Nap, c Costs, bytes float64) {
	for _, n := range naps {
		asleep := n.To.Sub(n.From)
		o.Suspends++
		o.AsleepHours += asleep.Hours()
		o.SavedGiBh += max(asleep-c.Suspend, 0).Hours() * bytes / (1 << 30)
		if !n.Woken {
			continue
		}
		o.Resumes++
		o.Waits += c.Resume.Seconds()
		if n.Wrong() {
			o.Wrong++
		}
	}
}
