package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// Act is what is done about a session.
type Act string

// The acts.
const (
	Suspend Act = "suspend"
	Move    Act = "move"
	Wait    Act = "wait"
)

// Step is what a pass does about one session.
type Step struct {
	Record statekv.Versioned
	Act    Act
	Why    string
	To     schemas.HostID // of a move
	Seq    uint64         // the last activity that this was decided on; 0 if it is done no matter what is heard
}

// Target chooses where a session may move; why says why no host can take it.
type Target func(statekv.Versioned) (to schemas.HostID, why string)

// again is how long a session is left alone after a suspend or move of it failed.
const again = 10 * time.Second

// Plan decides what a pass does about the sessions of a host that run there, are under way there,
// or move there; it has no step for others. use says how sessions are used, as far as that is known:
// it counts for a session only if it is of the revision that records has. On a host that is gone
// nothing can be suspended.
func Plan(h schemas.HostID, gone, force bool, records []statekv.Versioned, use map[schemas.Name]scheduler.Use, target Target, now time.Time) []Step {
	var steps []Step
	for _, r := range records {
		s := underway(h, force, r, now)
		switch {
		case s.Act != "":
		case r.Host != h || r.State != schemas.Running:
			continue
		case gone:
			s = Step{Record: r, Act: Wait, Why: "its host is gone"}
		default:
			s = running(r, force, use, target)
		}
		steps = append(steps, s)
	}
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Compare(a.Record.Name().String(), b.Record.Name().String())
	})
	return steps
}

// underway gives the step of a session about which nothing can be decided now; no Act if
// that isn't so.
func underway(h schemas.HostID, force bool, r statekv.Versioned, now time.Time) Step {
	wait := func(format string, args ...any) Step {
		return Step{Record: r, Act: Wait, Why: fmt.Sprintf(format, args...)}
	}
	if r.Host != h {
		if r.MovingTo() == h {
			return wait("it is on its way here")
		}
		return Step{}
	}
	switch to := r.MovingTo(); {
	case r.Op == nil && r.State != schemas.Running: // it sleeps, or has ended
		return Step{}
	case to != "":
		return wait("it moves to host %s", to)
	case r.State == schemas.Suspending, r.State == schemas.Suspended:
		return wait("it is being suspended")
	case r.Op != nil:
		return wait("%s", r.Underway())
	}
	f := r.Failure
	if f != nil && f.Op == schemas.OpSuspend && f.Open && !force {
		return wait("its breaker is open: %s", f.Text)
	}
	if f != nil && (f.Op == schemas.OpSuspend || f.Op == schemas.OpMove) {
		if ago := now.Sub(f.At); ago >= 0 && ago < again {
			return wait("its last %s failed: %s", f.Op, f.Text)
		}
	}
	return Step{}
}

// running decides about a session that runs with nothing under way.
func running(r statekv.Versioned, force bool, use map[schemas.Name]scheduler.Use, target Target) Step {
	s := Step{Record: r}
	u, known := use[r.Name()]
	if known = known && u.Rev == r.Rev; !known && !force {
		s.Act, s.Why = Wait, "its use isn't known yet"
		return s
	}
	inUse := !known || u.What != ""
	if inUse && !force {
		s.Act, s.Why = Wait, "it is in use: "+u.What
		return s
	}
	if !force {
		s.Seq = u.Seq
	}
	if !inUse && !u.Never {
		s.Act, s.Why = Suspend, "it isn't in use"
		return s
	}
	if !inUse {
		s.Why = "it isn't in use, and never suspended for idleness"
	} else {
		s.Why = "it is in use, and is to go all the same"
	}
	to, none := target(r)
	switch {
	case to != "":
		s.Act, s.To = Move, to
	case force:
		s.Act, s.Why = Suspend, s.Why+"; "+none
	default:
		s.Act, s.Why = Wait, s.Why+"; "+none
	}
	return s
}
