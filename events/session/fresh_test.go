package session_test

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// useless is a session whose image is proven to be damaged, and that is to be started fresh then.
func useless() schemas.SessionRecord {
	return schemas.SessionRecord{
		UID: "u", Tenant: "default", Session: "work", Class: "web", Lineage: "lin", Driver: "new", Keeps: schemas.KeepsMemory,
		State: schemas.Suspended, OnResume: schemas.ResumeFresh, Head: &schemas.Head{Name: "default/lin/snaps/2-7", Digest: "d"}, Size: &schemas.Sizes{Logical: 1},
		Failure: &schemas.Failure{Op: schemas.OpResume, Cause: schemas.CauseDamaged, Text: "packs/1 is not what was written", Resumes: 1},
	}
}

// Only what is proven has a session started in place of its image, and only where that was asked for.
func TestFresh(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*schemas.SessionRecord)
		policy schemas.OnResume
		want   schemas.Cause
	}{
		"damaged":                  {func(*schemas.SessionRecord) {}, "", schemas.CauseDamaged},
		"missing":                  {func(r *schemas.SessionRecord) { r.Failure.Cause = schemas.CauseMissing }, "", schemas.CauseMissing},
		"refused on every host":    {func(r *schemas.SessionRecord) { r.Failure.Cause = schemas.CauseRefused }, "", schemas.CauseRefused},
		"refused on some":          {func(r *schemas.SessionRecord) { r.Failure.Cause, r.Failure.Refused = "", []schemas.HostID{"a"} }, "", ""},
		"the store is away":        {func(r *schemas.SessionRecord) { r.Failure.Cause, r.Failure.Text = "", "connection refused" }, "", ""},
		"no key":                   {func(r *schemas.SessionRecord) { r.Failure.Cause, r.Failure.Kind = "", "refused" }, "", ""},
		"no failure":               {func(r *schemas.SessionRecord) { r.Failure = nil }, "", ""},
		"a start failed since":     {func(r *schemas.SessionRecord) { r.Failure.Op = schemas.OpStart }, "", ""},
		"its policy says so":       {func(r *schemas.SessionRecord) { r.OnResume = "" }, schemas.ResumeFresh, schemas.CauseDamaged},
		"nothing says so":          {func(r *schemas.SessionRecord) { r.OnResume = "" }, "", ""},
		"its policy says keep":     {func(r *schemas.SessionRecord) { r.OnResume = "" }, schemas.ResumeKeep, ""},
		"it says keep itself":      {func(r *schemas.SessionRecord) { r.OnResume = schemas.ResumeKeep }, schemas.ResumeFresh, ""},
		"it is being resumed":      {func(r *schemas.SessionRecord) { r.State = schemas.Resuming }, "", ""},
		"its processes are frozen": {func(r *schemas.SessionRecord) { r.Op = &schemas.Op{Kind: schemas.OpReap} }, "", ""},
		"it runs":                  {func(r *schemas.SessionRecord) { r.State = schemas.Running }, "", ""},
		"a fork that never ran":    {func(r *schemas.SessionRecord) { r.Head.Name = "default/other/snaps/2-7" }, "", ""},
		"seen at a glance":         {func(r *schemas.SessionRecord) { r.Head, r.Lineage = nil, "" }, "", schemas.CauseDamaged},
		"a person has never looked": {func(r *schemas.SessionRecord) {
			r.Notice = &schemas.Notice{Kept: make([]schemas.Head, schemas.MaxKept)}
		}, "", ""},
		"one is kept already": {func(r *schemas.SessionRecord) { r.Notice = &schemas.Notice{Kept: make([]schemas.Head, 1)} }, "", schemas.CauseDamaged},
	} {
		r := useless()
		c.change(&r)
		if got := session.Fresh(r, session.Policy{OnResume: c.policy}); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func apply(t *testing.T, r schemas.SessionRecord, tr schemas.Transition) schemas.SessionRecord {
	t.Helper()
	out, err := session.Apply(r, tr)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func points(r schemas.SessionRecord, h schemas.Head) bool { return r.PointsAt(h) }

// What was suspended is pointed at, and so kept, at every step, until a person dismisses the notice.
func TestFreshKeepsTheImage(t *testing.T) {
	r := useless()
	head := *r.Head
	asked := apply(t, r, session.FreshStart(r, schemas.CauseDamaged, 9, t0))
	if asked.State != schemas.Starting || asked.Epoch != r.Epoch+1 || !points(asked, head) || asked.Notice != nil || asked.Seq != 0 {
		t.Fatalf("asked for: %+v", asked)
	}
	failed := apply(t, asked, schemas.Transition{Type: schemas.TStartFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpStart}}})
	if failed.State != schemas.Suspended || *failed.Head != head || failed.Notice != nil {
		t.Errorf("the start failed: %+v", failed)
	}
	runs := apply(t, asked, schemas.Transition{Type: schemas.TStarted})
	n := runs.Notice
	if runs.State != schemas.Running || runs.Boot != schemas.BootClean || runs.UID != r.UID || runs.Head != nil || runs.Size != nil || runs.Failure != nil || n == nil || !points(runs, head) {
		t.Fatalf("it runs: %+v", runs)
	}
	if n.Text != "restarted without its memory: its snapshot is damaged" || n.Detail != r.Failure.Text || n.Cause != schemas.CauseDamaged {
		t.Errorf("the notice: %+v", n)
	}
	op := &schemas.Op{Kind: schemas.OpStart, Notice: n, Back: true}
	again := apply(t, runs, schemas.Transition{Type: schemas.TStartAgain, Set: schemas.Set{Op: op}})
	if again.Head == nil || *again.Head != head || again.Notice != nil || again.Generation != r.Generation {
		t.Errorf("it never ran: %+v", again)
	}
	back := apply(t, again, schemas.Transition{Type: schemas.TStartFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpStart}}})
	if back.State != schemas.Suspended || *back.Head != head {
		t.Errorf("it never ran, and can't: %+v", back)
	}
	later := schemas.Head{Name: "default/lin/snaps/4-11", Digest: "e"}
	suspended := apply(t, apply(t, runs, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpSuspend}}}),
		schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &later, Size: &schemas.Sizes{}}})
	if !points(suspended, head) || !points(suspended, later) {
		t.Errorf("suspended again: %v", suspended.Heads())
	}
	suspended.Failure = r.Failure
	second := apply(t, apply(t, suspended, session.FreshStart(suspended, schemas.CauseMissing, 12, t0)), schemas.Transition{Type: schemas.TStarted})
	if !points(second, head) || !points(second, later) {
		t.Errorf("started clean twice: %v", second.Heads())
	}
	dismissed := apply(t, second, schemas.Transition{Type: schemas.TDismissed})
	if dismissed.Notice != nil || points(dismissed, head) || points(dismissed, later) {
		t.Errorf("dismissed: %v", dismissed.Heads())
	}
}

// What the fleet finds counts for the resume that failed alone, not for a session that goes on.
func TestUnresumable(t *testing.T) {
	r := useless()
	r.Failure = &schemas.Failure{Op: schemas.OpResume, Refused: []schemas.HostID{"a"}}
	found := schemas.Transition{Type: schemas.TUnresumable, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume, Cause: schemas.CauseRefused}}}
	if got := apply(t, r, found); got.State != schemas.Suspended || got.Failure.Cause != schemas.CauseRefused || got.Epoch != r.Epoch {
		t.Errorf("%+v", got)
	}
	r.Failure = nil
	if got := apply(t, r, found); got.Failure != nil {
		t.Errorf("it has no failure, and gets %+v", got.Failure)
	}
	r.State = schemas.Resuming
	if _, err := session.Apply(r, found); err == nil {
		t.Error("a session that is being resumed is found to be unresumable")
	}
}

// Activity resumes a session less and less often whose resumes fail.
func TestRetry(t *testing.T) {
	p := session.Policy{Backoff: 10 * time.Second}
	for _, c := range []struct {
		resumes      int
		pause, asked time.Duration
	}{{0, 10 * time.Second, -1}, {1, 10 * time.Second, -1}, {2, 20 * time.Second, -1}, {3, 40 * time.Second, 40 * time.Second}, {5, 160 * time.Second, 160 * time.Second}, {1000, 2560 * time.Second, 2560 * time.Second}} {
		f := &schemas.Failure{Op: schemas.OpResume, Resumes: c.resumes, At: t0}
		if got := session.Retry(f, t0, p).Sub(t0); got != c.pause {
			t.Errorf("%d failed: %s, want %s", c.resumes, got, c.pause)
		}
		if got := session.RetryAsked(f, p); c.asked < 0 && !got.IsZero() || c.asked > 0 && got.Sub(t0) != c.asked {
			t.Errorf("%d failed, asked: %v, want %s", c.resumes, got, c.asked)
		}
	}
	p.Backoff = time.Hour * 2
	if got := session.Retry(&schemas.Failure{Op: schemas.OpResume, Resumes: 9}, t0, p).Sub(t0); got != 2*time.Hour {
		t.Errorf("a long pause becomes %s", got)
	}
	if got := session.Retry(&schemas.Failure{Op: schemas.OpSuspend, Resumes: 9}, t0, p); !got.IsZero() {
		t.Errorf("a suspend that failed: %v", got)
	}
}

// Activity that comes after the decision to suspend starts it, after the pause.
func TestDecideFresh(t *testing.T) {
	v := &session.View{HeardSince: t0}
	r := useless()
	r.Seq = 3
	v.See(r, t0)
	p := session.Policy{Backoff: 10 * time.Second}.With(schemas.Policy{Wakes: []schemas.Kind{schemas.KindHTTP}})
	if d := session.Decide(v, p, at(60)); d.Verdict != session.Leave {
		t.Errorf("unused it is to %s", d.Verdict)
	}
	v.Hear(session.Message{Source: schemas.Source{Kind: schemas.KindHTTP}, Seq: 4, At: at(1)}, p)
	if d := session.Decide(v, p, at(5)); d.Verdict != session.Leave || !d.Next.Equal(at(10)) {
		t.Errorf("right after the failure: %s until %v", d.Verdict, d.Next)
	}
	if d := session.Decide(v, p, at(10)); d.Verdict != session.Wake || d.Fresh != schemas.CauseDamaged {
		t.Errorf("after the pause: %s, %q: %s", d.Verdict, d.Fresh, d.Reason)
	}
	r.OnResume = schemas.ResumeKeep
	v.See(r, at(11))
	if d := session.Decide(v, p, at(60)); d.Verdict != session.Wake || d.Fresh != "" {
		t.Errorf("with keep: %s, %q", d.Verdict, d.Fresh)
	}
}
