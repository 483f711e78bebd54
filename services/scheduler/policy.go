package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Policies says what sessions are held to. *policykv.Cache does.
type Policies interface {
	// For gives what a session is held to, by name, uid, class and idle rule of its
	// record. It is asked for every message, and has to answer at once.
	For(r schemas.SessionRecord) session.Policy
	// Changed has a token when some policy has changed since the last was taken.
	Changed() <-chan struct{}
}

// builtin are the policies where none was set.
type builtin struct{}

func (builtin) For(r schemas.SessionRecord) session.Policy {
	p, _ := session.PolicyFor(r.Class, r.Idle)
	return p
}

func (builtin) Changed() <-chan struct{} { return nil }

// triedAtOnce is how many sessions are tried before the loop goes on with its work,
// triedShown how many of them the answer lists.
const (
	triedAtOnce = 500
	triedShown  = 1000
)

// Try says what would be decided now about the sessions that in takes, were they held
// to what trial says. It changes nothing.
func (s *Scheduler) Try(ctx context.Context, in func(schemas.SessionRecord) bool, trial func(schemas.SessionRecord) session.Policy) (schemas.PolicyTest, error) {
	out := schemas.PolicyTest{Sessions: []schemas.PolicyVerdict{}}
	var same []schemas.PolicyVerdict
	err := s.each(ctx, func(l *loop, t *tracked) {
		if v := l.table.view(t); in(v.Record) {
			same = add(&out, same, try(v, l.table.policy(&v), trial(v.Record), time.Now()))
		}
	})
	if err != nil {
		return out, err
	}
	room := min(triedShown-len(out.Sessions), len(same))
	out.Sessions = append(out.Sessions, same[:room]...)
	out.Omitted = out.Tested - len(out.Sessions)
	return out, nil
}

// each calls fn for every session that has a record, in the order of their names, some
// at a time: deciding goes on between.
func (s *Scheduler) each(ctx context.Context, fn func(*loop, *tracked)) error {
	var keys []string
	if err := s.ask(ctx, func(l *loop) { keys = slices.Collect(maps.Keys(l.table.sessions)) }); err != nil {
		return err
	}
	slices.Sort(keys)
	for part := range slices.Chunk(keys, triedAtOnce) {
		err := s.ask(ctx, func(l *loop) {
			for _, key := range part {
				if t, ok := l.table.sessions[key]; ok && t.view.uid != "" {
					fn(l, t)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add counts one session, and gives those for which nothing would be otherwise.
func add(out *schemas.PolicyTest, same []schemas.PolicyVerdict, v tried) []schemas.PolicyVerdict {
	out.Tested++
	if v.suspends {
		out.Suspends++
	}
	switch {
	case v.Changed:
		out.Changed++
		if len(out.Sessions) < triedShown {
			out.Sessions = append(out.Sessions, v.PolicyVerdict)
		}
	case len(same) < triedShown:
		return append(same, v.PolicyVerdict)
	}
	return same
}

type tried struct {
	schemas.PolicyVerdict
	suspends bool
}

func try(v session.View, now, other session.Policy, at time.Time) tried {
	a, b := session.Decide(&v, now, at), session.Decide(&v, other, at)
	changed := a.Verdict != b.Verdict || !a.Due.Equal(b.Due)
	return tried{schemas.PolicyVerdict{
		Name: v.Record.Name().String(), State: v.Record.State, Changed: changed,
		Now: said(a), At: a.Due, Would: said(b), Then: b.Due,
	}, b.Verdict == session.Suspend && a.Verdict != session.Suspend}
}

func said(d session.Decision) string { return string(d.Verdict) + ": " + d.Reason }
