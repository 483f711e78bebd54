package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// A recovered record replaces all but the log's own count, of any record before it,
// and only with an epoch that is new.
func TestRecovered(t *testing.T) {
	made := &schemas.SessionRecord{UID: "v", Tenant: "default", Session: "work", State: schemas.Suspended, Epoch: 9, Version: 77, Head: &schemas.Head{Name: "default/v/snaps/8-1"}}
	for _, s := range []schemas.State{"", schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed, schemas.Deleted} {
		before := schemas.SessionRecord{UID: "u", State: s, Epoch: 8, Version: 4, Failure: &schemas.Failure{Op: "suspend"}}
		got, err := session.Apply(before, schemas.Transition{ID: "t", Type: schemas.TRecovered, At: t0, Set: schemas.Set{Recovered: made}})
		if err != nil || got.UID != "v" || got.Epoch != 9 || got.Version != 5 || got.Failure != nil || got.Head == nil || got.Transition.ID != "t" || !got.Since.Equal(t0) {
			t.Errorf("from %q: %v, %+v", s, err, got)
		}
		before.Epoch = 9
		for _, set := range []schemas.Set{{}, {Recovered: made}} {
			if _, err := session.Apply(before, schemas.Transition{Type: schemas.TRecovered, Set: set}); !errors.Is(err, session.ErrIllegal) {
				t.Errorf("from %q at epoch 9 with %+v: %v", s, set.Recovered, err)
			}
		}
	}
}

// A checkpoint that fails doesn't forget how often suspends failed; a reset does.
func TestBreakerKeepsItsCount(t *testing.T) {
	rec := schemas.SessionRecord{UID: "u", State: schemas.Running, Failure: &schemas.Failure{Op: schemas.OpSuspend, Count: 3, Open: true}}
	got, err := session.Apply(rec, schemas.Transition{Type: schemas.TCheckpointFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpCheckpoint, Count: 1}}})
	if err != nil || got.Failure == nil || got.Failure.Op != schemas.OpSuspend || got.Failure.Count != 3 {
		t.Errorf("after a checkpoint that failed: %v, %+v", err, got.Failure)
	}
	if got, err = session.Apply(got, schemas.Transition{Type: schemas.TBreakerReset}); err != nil || got.Failure != nil || got.State != schemas.Running {
		t.Errorf("after a reset: %v, %s, %+v", err, got.State, got.Failure)
	}
}

// A failure that lies far ahead was noted by a clock that was set back since: it holds
// nothing up.
func TestClockSetBackAfterAFailure(t *testing.T) {
	v := &session.View{}
	v.See(schemas.SessionRecord{UID: "u", State: schemas.Running, Failure: &schemas.Failure{Op: schemas.OpSuspend, Count: 1, At: t0.Add(time.Hour)}}, t0)
	p, _ := session.PolicyFor("web", nil)
	if d := session.Decide(v, p, t0.Add(p.Grace)); d.Verdict != session.Suspend {
		t.Errorf("%s: %s", d.Verdict, d.Reason)
	}
}

// How long a session has run is counted from when it was seen to begin, by any clock that its
// host has; by who came later from what its record says.
func TestLifeByTheClockOfWhoSawIt(t *testing.T) {
	limited := under(t, "life=30m")
	for name, c := range map[string]struct {
		before  schemas.State
		started time.Time // says its host
		expires time.Time
	}{
		"seen, by a host an hour behind":         {schemas.Starting, t0.Add(-time.Hour), t0.Add(30 * time.Minute)},
		"seen, by a host an hour ahead":          {schemas.Starting, t0.Add(time.Hour), t0.Add(30 * time.Minute)},
		"started before, ten minutes ago":        {"", t0.Add(-10 * time.Minute), t0.Add(20 * time.Minute)},
		"started before, by a host that's ahead": {"", t0.Add(time.Hour), t0.Add(30 * time.Minute)},
	} {
		v := &session.View{HeardSince: t0.Add(-time.Hour)}
		r := schemas.SessionRecord{UID: "u", Class: "web", State: c.before, Since: t0.Add(-2 * time.Hour)}
		if c.before != "" {
			v.See(r, t0.Add(-time.Second))
		}
		r.State, r.Since = schemas.Running, c.started
		v.See(r, t0)
		v.See(r, t0.Add(time.Minute)) // another revision, of the same
		for at := t0; ; at = at.Add(time.Minute) {
			v.Hear(session.Message{Source: schemas.Source{Kind: schemas.KindInput}, Seq: v.Seq() + 1, At: at}, limited)
			if d := session.Decide(v, limited, at); d.Verdict == session.Suspend {
				if !at.Equal(c.expires) {
					t.Errorf("%s: it is suspended at %s, want %s: %s", name, at.Sub(t0), c.expires.Sub(t0), d.Reason)
				}
				break
			}
			if at.After(t0.Add(3 * time.Hour)) {
				t.Fatalf("%s: it isn't suspended", name)
			}
		}
	}
}
