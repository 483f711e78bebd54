package api

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

var morning = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func after(minutes float64) time.Time {
	return morning.Add(time.Duration(minutes * float64(time.Minute)))
}

func quiet(uid schemas.UID, from, to float64, what string) schemas.Silence {
	return schemas.Silence{UID: uid, From: after(from).UnixMilli(), To: after(to).UnixMilli(), What: what}
}

func graced(grace time.Duration) func(schemas.SessionRecord) session.Policy {
	return func(r schemas.SessionRecord) session.Policy {
		p, _ := session.PolicyFor(r.Class, nil)
		p.Grace = grace
		return p
	}
}

// revisions tells a past what the log says of a session of 1 GiB that was made in the
// morning.
func revisions(p *past, uid schemas.UID, types map[schemas.TransitionType]float64, actor string) {
	r := schemas.SessionRecord{UID: uid, Tenant: "acme", Session: schemas.SessionID(uid), Class: "web", State: schemas.Running, Created: morning, Size: &schemas.Sizes{Logical: 1 << 30}}
	for _, t := range []schemas.TransitionType{schemas.TStarted, schemas.TSuspend, schemas.TSuspended, schemas.TResume, schemas.TResumed, schemas.TRemove} {
		at, ok := types[t]
		if !ok {
			continue
		}
		if t == schemas.TRemove {
			r.State = schemas.Deleted
		}
		r.Transition = schemas.Transition{Type: t, At: after(at), Actor: actor}
		p.revision(r)
	}
}

func newMorning(to float64) *past {
	p := newPast(schemas.ScopeAll, morning)
	p.to = after(to)
	return p
}

// Two hours of one session: quiet for 30 minutes, then for 6, then until the end.
func TestSimulate(t *testing.T) {
	p := newMorning(120)
	p.page(schemas.UseHistory{Writer: "w", Since: morning.Add(-time.Hour), At: after(1)})
	p.page(schemas.UseHistory{Writer: "w", Since: morning.Add(-time.Hour), At: after(5), Silences: []schemas.Silence{quiet("u", 10, 40, "input"), quiet("u", 50, 56, "input")}})
	p.silences["u"] = append(p.silences["u"], quiet("u", 60, 120, ""))
	revisions(p, "u", map[schemas.TransitionType]float64{schemas.TStarted: 0, schemas.TSuspend: 15, schemas.TSuspended: 15.1, schemas.TResume: 40, schemas.TResumed: 40.05}, "scheduler@h")
	p.drawn = true
	out := p.simulate(graced(5*time.Minute), graced(10*time.Minute))
	if len(out.Lives) != 1 || out.Omitted != 0 {
		t.Fatalf("the lives are %+v, and %d more", out.Lives, out.Omitted)
	}
	l := out.Lives[0]
	if l.Name != "acme/u" || !l.From.Equal(morning) || !l.To.Equal(after(120)) || len(l.Now.Naps) != 3 || l.Now.Wrong != 1 || len(l.Would.Naps) != 2 || minutes(l.Would.SavedGiBh) != 70 {
		t.Errorf("its life is %+v", l)
	}
	if n := l.Now.Naps[1]; !n.From.Equal(after(55)) || !n.To.Equal(after(56)) || !n.Woken || !n.Wrong {
		t.Errorf("it is woken wrongly after %+v", n)
	}
	if n := l.Would.Naps[1]; !n.From.Equal(after(70)) || !n.To.Equal(after(120)) || n.Woken || n.Wrong {
		t.Errorf("at last it sleeps %+v", n)
	}
	if out.Sessions != 1 || out.Unknown != 0 || !out.From.Equal(morning) || len(out.Notes) != 0 {
		t.Errorf("%+v", out)
	}
	// By 5 minutes: asleep from 15 to 40, from 55 to 56 and from 65 to 120; by 10: from 20 to 40 and from 70.
	if o := out.Now; o.Suspends != 3 || o.Resumes != 2 || o.Wrong != 1 || minutes(o.AsleepHours) != 81 || minutes(o.SavedGiBh) != 81 {
		t.Errorf("as it is: %+v", o)
	}
	if o := out.Would; o.Suspends != 2 || o.Resumes != 1 || o.Wrong != 0 || minutes(o.AsleepHours) != 70 || o.Waits != 3 {
		t.Errorf("would be: %+v", o)
	}
}

// minutes rounds hours to whole minutes; a suspend takes some seconds of them.
func minutes(hours float64) int { return int(hours*60 + 0.5) }

// A resume that a person asked for is a use, though no activity says so; and a session
// that is gone takes no memory.
func TestSimulateWhatWasAskedFor(t *testing.T) {
	p := newMorning(120)
	p.page(schemas.UseHistory{Writer: "w", Since: morning, At: after(1)})
	p.silences["u"] = []schemas.Silence{quiet("u", 0, 120, "")}
	revisions(p, "u", map[schemas.TransitionType]float64{schemas.TStarted: 0, schemas.TSuspend: 5, schemas.TSuspended: 5, schemas.TResume: 30, schemas.TResumed: 30, schemas.TRemove: 60}, "cli:me")
	out := p.simulate(graced(5*time.Minute), graced(time.Hour))
	if o := out.Now; o.Suspends != 2 || o.Resumes != 1 || minutes(o.AsleepHours) != 50 {
		t.Errorf("as it is: %+v", o)
	}
	if o := out.Would; o.Suspends != 0 || o.AsleepHours != 0 {
		t.Errorf("would be: %+v", o)
	}
}

// What the use history doesn't know counts as use, and that is said.
func TestSimulateWhatIsUnknown(t *testing.T) {
	p := newMorning(120)
	p.page(schemas.UseHistory{Writer: "a", Since: after(30), At: after(31)})
	p.page(schemas.UseHistory{Writer: "b", Since: after(45), At: after(46)})
	p.page(schemas.UseHistory{Writer: "b", Since: after(45), At: after(66)})
	revisions(p, "u", map[schemas.TransitionType]float64{schemas.TStarted: 0}, "me")
	out := p.simulate(graced(time.Minute), graced(time.Minute))
	if out.Unknown != 1 || !out.From.Equal(after(30)) || time.Duration(out.Holes) != 34*time.Minute || len(out.Notes) != 2 {
		t.Errorf("%+v", out)
	}
	if out.Now != (schemas.Outcome{}) {
		t.Errorf("%+v", out.Now)
	}
}

// By uses other kinds can be tried: a page that is only open, and a resume that a person
// asked for.
func TestSimulateKinds(t *testing.T) {
	p := newMorning(120)
	p.byKind = true
	p.page(schemas.UseHistory{Writer: "w", Since: morning.Add(-time.Hour), At: after(1)}) // of an earlier version
	if !p.first.IsZero() {
		t.Errorf("the use history begins at %s", p.first)
	}
	use := func(what string, from, to float64) schemas.Use {
		return schemas.Use{UID: "u", What: what, From: after(from).UnixMilli(), To: after(to).UnixMilli()}
	}
	p.page(schemas.UseHistory{Writer: "v", Since: morning, At: after(2), Kinds: true, Uses: []schemas.Use{use("input", 1, 2)}})
	p.page(schemas.UseHistory{Writer: "v", Since: morning, At: after(6), Kinds: true, Uses: []schemas.Use{use("heartbeat", 0, 60)}})
	p.used([]schemas.Use{use("heartbeat", 60, 100), use("input", 80, 80)})
	revisions(p, "u", map[schemas.TransitionType]float64{schemas.TStarted: 0, schemas.TSuspend: 105, schemas.TSuspended: 105, schemas.TResume: 110, schemas.TResumed: 110}, "cli:me")
	deaf := func(r schemas.SessionRecord) session.Policy {
		return graced(5 * time.Minute)(r).With(schemas.Policy{Counts: []schemas.Kind{schemas.KindInput, schemas.KindHold}})
	}
	out := p.simulate(graced(5*time.Minute), deaf)
	// Now: asleep from 105 to 110 and from 115; without heartbeats from 7 to 80, 85 to 110, and from 115.
	if o := out.Now; out.Unknown != 0 || o.Suspends != 2 || o.Resumes != 1 || minutes(o.AsleepHours) != 10 {
		t.Errorf("as it is: %+v", out)
	}
	if o := out.Would; o.Suspends != 3 || o.Resumes != 2 || minutes(o.AsleepHours) != 73+25+5 {
		t.Errorf("would be: %+v", o)
	}
	sleepless := func(r schemas.SessionRecord) session.Policy {
		return deaf(r).With(schemas.Policy{Wakes: []schemas.Kind{}})
	}
	if o := p.simulate(deaf, sleepless).Would; o.Suspends != 2 || o.Resumes != 1 || minutes(o.AsleepHours) != 103+5 {
		t.Errorf("where nothing wakes: %+v", o)
	}
}

// A time in which no use history was kept counts as use, and so does what a scheduler
// that died may not have written yet.
func TestSimulateKindsUnknown(t *testing.T) {
	p := newMorning(120)
	p.byKind = true
	p.page(schemas.UseHistory{Writer: "a", Since: morning, At: after(30), Kinds: true, Lost: 2})
	p.page(schemas.UseHistory{Writer: "b", Since: after(60), At: after(61), Kinds: true})
	p.page(schemas.UseHistory{Writer: "b", Since: after(60), At: after(66), Kinds: true})
	p.page(schemas.UseHistory{Writer: "b", Since: after(68), At: after(70), Kinds: true}) // NATS was away
	revisions(p, "u", map[schemas.TransitionType]float64{schemas.TStarted: 0}, "me")
	out := p.simulate(graced(5*time.Minute), graced(5*time.Minute))
	if o := out.Would; o.Suspends != 2 || minutes(o.AsleepHours) != 20+47 || time.Duration(out.Holes) != 32*time.Minute || len(out.Notes) != 3 {
		t.Errorf("%+v", out)
	}
}

// What suspends sessions beside their idleness isn't simulated, and that is said: evictions above all.
func TestSimulateSaysWhatItLeavesOut(t *testing.T) {
	p := newMorning(120)
	p.page(schemas.UseHistory{Writer: "w", Since: morning, At: after(1)})
	p.silences["u"] = []schemas.Silence{quiet("u", 0, 120, "")}
	r := schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "u", Class: "web", State: schemas.Suspending, Created: morning, Size: &schemas.Sizes{Logical: 1 << 30}}
	for i, why := range []schemas.PauseReason{
		schemas.PausePressure, schemas.PauseQuota, schemas.PausePressure, schemas.PauseManual, schemas.PauseDrain, schemas.PauseInactivity, schemas.PauseExpired,
	} {
		at := after(float64(i))
		r.Transition = schemas.Transition{Type: schemas.TSuspend, At: at, Actor: "scheduler@h", Set: schemas.Set{Pause: &schemas.Pause{Reason: why, At: at}}}
		p.revision(r)
	}
	notes := strings.Join(p.simulate(graced(5*time.Minute), graced(time.Hour)).Notes, "\n")
	for _, want := range []string{"3 suspends made room for others", "2 suspends were asked for"} {
		if !strings.Contains(notes, want) {
			t.Errorf("it doesn't say %q: %s", want, notes)
		}
	}
}
