package session_test

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// life is a record that goes through transitions, a second each.
type life struct {
	t *testing.T
	schemas.SessionRecord
	now time.Time
}

func begin(t *testing.T) *life {
	l := &life{t: t, now: t0}
	l.goes(schemas.TRun, schemas.Set{New: &schemas.NewSession{UID: "u", Tenant: "default", Session: "work"}, Op: &schemas.Op{Kind: schemas.OpStart}})
	l.goes(schemas.TStarted, schemas.Set{})
	return l
}

func (l *life) goes(typ schemas.TransitionType, set schemas.Set) {
	l.t.Helper()
	l.now = l.now.Add(time.Second)
	next, err := session.Apply(l.SessionRecord, schemas.Transition{Type: typ, At: l.now, Set: set})
	if err != nil {
		l.t.Fatal(err)
	}
	l.SessionRecord = next
}

// suspends takes the session to sleep; without a reason as a version did that knew none.
func (l *life) suspends(why schemas.PauseReason, trigger string) {
	l.t.Helper()
	op := &schemas.Op{Kind: schemas.OpSuspend, Trigger: trigger}
	set := schemas.Set{Op: op}
	if why != "" {
		set.Pause = &schemas.Pause{Reason: why, At: l.now}
	}
	l.goes(schemas.TSuspend, set)
	reap := *op
	reap.Kind = schemas.OpReap
	l.goes(schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "h"}, Op: &reap})
}

func (l *life) want(reason schemas.PauseReason, at time.Time) {
	l.t.Helper()
	if p := l.Paused(); p == nil || p.Reason != reason || !p.At.Equal(at) {
		l.t.Fatalf("after %s the pause is %+v, want %q at %v", l.Transition.Type, p, reason, at)
	}
}

// A pause lasts while its session is suspended, with the reason that the suspend had.
func TestPause(t *testing.T) {
	l := begin(t)
	if l.Paused() != nil {
		t.Fatalf("one that runs has the pause %+v", l.Paused())
	}
	l.suspends(schemas.PauseQuota, "pressure")
	slept := l.now
	l.want(schemas.PauseQuota, slept)
	l.goes(schemas.TReaped, schemas.Set{})
	l.want(schemas.PauseQuota, slept)
	l.goes(schemas.TResume, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}})
	if l.Paused() != nil {
		t.Fatalf("one that resumes has the pause %+v", l.Paused())
	}
	l.goes(schemas.TResumeFailed, schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume}})
	l.want(schemas.PauseQuota, slept)
	l.goes(schemas.TResume, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}})
	l.goes(schemas.TResumed, schemas.Set{})
	if v := schemas.ViewOf(l.SessionRecord); v.Pause != nil {
		t.Fatalf("one that runs is shown with the pause %+v", v.Pause)
	}
	l.goes(schemas.TResumeAgain, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}}) // it never ran
	l.goes(schemas.TResumeFailed, schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume}})
	l.want(schemas.PauseQuota, slept)
}

// A session whose host was lost, and that no other could resume, is suspended for that.
func TestPauseOfTheLost(t *testing.T) {
	l := begin(t)
	l.suspends(schemas.PauseInactivity, "idle")
	l.goes(schemas.TReaped, schemas.Set{})
	l.goes(schemas.TResume, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}})
	l.goes(schemas.TResumed, schemas.Set{})
	l.goes(schemas.TTakenOver, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}, Pause: &schemas.Pause{Reason: schemas.PauseHost, At: l.now}})
	lost := l.Pause.At
	l.goes(schemas.TResumeFailed, schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume}})
	l.want(schemas.PauseHost, lost)
}

// A suspend that came to nothing leaves no reason behind.
func TestPauseOfAFailedSuspend(t *testing.T) {
	for _, end := range []schemas.TransitionType{schemas.TSuspendAborted, schemas.TSuspendFailed, schemas.TExited, schemas.TLost} {
		l := begin(t)
		l.goes(schemas.TSuspend, schemas.Set{Op: &schemas.Op{Kind: schemas.OpSuspend}, Pause: &schemas.Pause{Reason: schemas.PauseManual, At: l.now}})
		l.goes(end, schemas.Set{Exit: &schemas.Exit{}})
		if l.Pause != nil {
			t.Errorf("%s leaves the pause %+v", end, l.Pause)
		}
	}
}

// Of a suspend that an earlier version decided on there is what its op says, until that is done,
// and the time.
func TestPauseOfEarlierVersions(t *testing.T) {
	for trigger, want := range map[string]schemas.PauseReason{
		"idle": schemas.PauseInactivity, "manual": schemas.PauseManual, "pressure": schemas.PausePressure, "expired": schemas.PauseExpired, "": "",
	} {
		l := begin(t)
		l.suspends("", trigger)
		slept := l.now
		l.want(want, slept)
		l.goes(schemas.TReaped, schemas.Set{})
		l.want("", slept)
		if l.Pause != nil {
			t.Errorf("its record is another one, with the pause %+v", l.Pause)
		}
	}
}

// Warnings stay until they don't hold any more: each capture replaces them, a resume only
// if it has its own.
func TestWarnings(t *testing.T) {
	of := func(code schemas.WarningCode) []schemas.Warning {
		return []schemas.Warning{{Code: code, Text: "x", At: t0}}
	}
	l := begin(t)
	want := func(code schemas.WarningCode) {
		t.Helper()
		if code == "" && len(l.Warnings) > 0 || code != "" && (len(l.Warnings) != 1 || l.Warnings[0].Code != code) {
			t.Fatalf("after %s it has the warnings %+v, want %q", l.Transition.Type, l.Warnings, code)
		}
	}
	suspend := func(end schemas.TransitionType, with []schemas.Warning) {
		t.Helper()
		l.goes(schemas.TSuspend, schemas.Set{Op: &schemas.Op{Kind: schemas.OpSuspend}})
		l.goes(end, schemas.Set{Head: &schemas.Head{Name: "h"}, Op: &schemas.Op{Kind: schemas.OpReap}, Warnings: with})
	}
	suspend(schemas.TSuspended, of(schemas.WarnConnection))
	want(schemas.WarnConnection)
	l.goes(schemas.TReaped, schemas.Set{})
	l.goes(schemas.TResume, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}})
	l.goes(schemas.TResumed, schemas.Set{})
	want(schemas.WarnConnection)
	suspend(schemas.TSuspendFailed, nil)
	want(schemas.WarnConnection)
	l.goes(schemas.TCheckpoint, schemas.Set{Op: &schemas.Op{Kind: schemas.OpCheckpoint}})
	l.goes(schemas.TCheckpointed, schemas.Set{Head: &schemas.Head{Name: "h"}})
	want("")
	suspend(schemas.TSuspended, of(schemas.WarnConnection))
	l.goes(schemas.TRevived, schemas.Set{}) // its connections were never closed
	want("")
	suspend(schemas.TSuspended, of(schemas.WarnBindMount))
	l.goes(schemas.TReaped, schemas.Set{})
	l.goes(schemas.TResume, schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}})
	l.goes(schemas.TResumed, schemas.Set{Warnings: of(schemas.WarnHook)})
	want(schemas.WarnHook)
}
