package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// under gives the policy of the class web with changes as people write them.
func under(t *testing.T, changes ...string) session.Policy {
	t.Helper()
	var w schemas.Policy
	for _, c := range changes {
		if err := w.Assign(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Validate(schemas.ClassScope("web")); err != nil {
		t.Fatal(err)
	}
	p, _ := session.PolicyFor("web", nil)
	return p.With(w)
}

func says(seq uint64, when float64, kind schemas.Kind, key string, ttl int) session.Message {
	a := schemas.Activity{TTL: schemas.Duration(time.Duration(ttl) * time.Second)}
	return session.Message{Source: schemas.Source{Name: work, Kind: kind, Key: key}, Activity: a, Seq: seq, At: at(when)}
}

// What each part of a policy does, by when a session is suspended and what is said
// before.
func TestPolicyParts(t *testing.T) {
	answers := func(times ...float64) (out []session.Message) {
		for i, s := range times {
			out = append(out, says(uint64(i+1), s, "hold", schemas.AnswerKey, 3600))
		}
		return out
	}
	for name, c := range map[string]struct {
		policy  []string
		boot    schemas.Boot
		history []session.Message
		want    float64
		told    []float64
	}{
		"grace":                              {policy: []string{"grace=100s"}, want: 100},
		"awake after a resume":               {policy: []string{"grace=10s", "awake=60s"}, boot: "resume", want: 60},
		"and not after a clean start":        {policy: []string{"grace=10s", "awake=60s"}, boot: "clean", want: 10},
		"life ends what is used":             {policy: []string{"life=2m"}, history: []session.Message{says(1, 100, "input", "", 0), says(2, 110, "http", "", 0)}, want: 120},
		"life waits for a lease":             {policy: []string{"life=6m"}, history: []session.Message{says(1, 200, "input", "", 0), says(2, 350, "presence", "c", 60)}, want: 410},
		"life with never":                    {policy: []string{"never=true", "life=10m"}, history: []session.Message{says(1, 599, "input", "", 0)}, want: 600},
		"quiet hours":                        {policy: []string{"grace=10s", "quiet=12:00-12:05"}, want: 300},
		"quiet hours elsewhere":              {policy: []string{"grace=10s", "quiet=13:00-13:05 Europe/Berlin"}, want: 300},
		"quiet hours of another day":         {policy: []string{"grace=10s", "quiet=mon 12:00-12:05"}, want: 10}, // t0 is a Sunday
		"a warning":                          {policy: []string{"grace=100s", "warn=30s"}, want: 100, told: []float64{70}},
		"a warning that comes late":          {policy: []string{"grace=10s", "warn=30s"}, want: 30, told: []float64{0}},
		"a warning again after use":          {policy: []string{"grace=100s", "warn=30s"}, history: []session.Message{says(1, 80, "input", "", 0)}, want: 180, told: []float64{70, 150}},
		"no warning while a lease lives":     {policy: []string{"grace=10s", "warn=30s"}, history: []session.Message{says(1, 0, "presence", "c", 90)}, want: 120, told: []float64{90}},
		"a question":                         {policy: []string{"grace=100s", "ask=for:20s,defer:60s,times:2"}, want: 100, told: []float64{80}},
		"a question that is answered":        {policy: []string{"grace=100s", "ask=for:20s,defer:60s,times:2"}, history: answers(85), want: 165, told: []float64{80, 145}},
		"answers come to an end":             {policy: []string{"grace=100s", "ask=for:20s,defer:60s,times:2"}, history: answers(85, 150, 215, 225, 229), want: 230, told: []float64{80, 145, 210}},
		"no answer counts":                   {policy: []string{"grace=100s", "ask=for:20s,defer:60s,times:0"}, history: answers(85, 95), want: 100, told: []float64{80}},
		"an answer that is soon over":        {policy: []string{"grace=1s", "ask=for:5s,defer:2s,times:3"}, history: answers(4), want: 11, told: []float64{0, 6}},
		"and after activity as without it":   {policy: []string{"grace=1s", "ask=for:5s,defer:2s,times:3"}, history: []session.Message{says(1, 1, "input", "", 0), says(2, 4, "hold", schemas.AnswerKey, 3600)}, want: 11, told: []float64{0, 1, 6}},
		"an answer after a lease":            {policy: []string{"grace=32s", "ask=for:39s,defer:4s,times:2"}, history: []session.Message{says(1, 1, "presence", "c", 60), says(2, 60, "input", "", 0), says(3, 62, "hold", schemas.AnswerKey, 3600)}, want: 105, told: []float64{0, 61, 66}},
		"an answer to no question is a hold": {policy: []string{"grace=10s"}, history: []session.Message{says(1, 5, "hold", schemas.AnswerKey, 100)}, want: 105},
		"what is ignored":                    {policy: []string{"grace=10s", "ignore=busy.cpu"}, history: []session.Message{says(1, 5, "busy", "cpu", 100), says(2, 6, "busy", "build", 20)}, want: 26},
		"kinds that count":                   {policy: []string{"grace=10s", "counts=output,hold"}, history: []session.Message{says(1, 5, "output", "", 0), says(2, 8, "input", "", 0), says(3, 9, "presence", "c", 60)}, want: 15},
	} {
		t.Run(name, func(t *testing.T) {
			v := &session.View{HeardSince: t0}
			v.See(schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Running, Class: "web", Boot: c.boot, Since: t0}, t0)
			var told []float64
			got := live(v, under(t, c.policy...), c.history, nil, func(s step) {
				if s.d.Verdict == session.Notify {
					told = append(told, s.at.Sub(t0).Seconds())
				}
			})
			if !got.Equal(at(c.want)) {
				t.Errorf("suspended at %v, want %v s", got.Sub(t0), c.want)
			}
			if len(told) != len(c.told) {
				t.Fatalf("told at %v, want %v", told, c.told)
			}
			for i := range told {
				if told[i] != c.told[i] {
					t.Errorf("told at %v, want %v", told, c.told)
				}
			}
		})
	}
}

// An outage ends the warning that came before it: no client could answer.
func TestWarningBeforeAGapIsSaidAgain(t *testing.T) {
	p := under(t, "grace=100s", "warn=30s")
	v := running()
	if d := session.Decide(v, p, at(70)); d.Verdict != session.Notify || !d.Due.Equal(at(100)) {
		t.Fatalf("%s, due %v", d.Verdict, d.Due)
	}
	v.Notified(at(70))
	v.HeardSince = at(90)
	if d := session.Decide(v, p, at(110)); d.Verdict != session.Leave || !d.Next.Equal(at(160)) {
		t.Errorf("%s, next %v", d.Verdict, d.Next.Sub(t0))
	}
	if d := session.Decide(v, p, at(160)); d.Verdict != session.Notify {
		t.Errorf("%s", d.Verdict)
	}
}

// A policy that changes holds for the leases that are there.
func TestPolicyChangesUnderALease(t *testing.T) {
	v := running()
	was := under(t, "grace=10s")
	v.Hear(says(1, 5, "presence", "c", 1000), was)
	if d := session.Decide(v, was, at(100)); d.Verdict != session.Leave {
		t.Fatalf("%s", d.Verdict)
	}
	if d := session.Decide(v, under(t, "grace=10s", "ignore=presence.c"), at(100)); d.Verdict != session.Suspend {
		t.Errorf("%s: %v", d.Verdict, d.Blockers)
	}
	if d := session.Decide(v, was, at(100)); d.Verdict != session.Leave {
		t.Errorf("and back: %s", d.Verdict)
	}
}

// Who is suspended for his age is told so.
func TestExpiredSaysSo(t *testing.T) {
	v := running()
	v.Hear(says(1, 400, "input", "", 0), under(t))
	d := session.Decide(v, under(t, "life=5m"), at(420))
	if d.Verdict != session.Suspend || d.Pause != schemas.PauseExpired || !strings.HasPrefix(d.Reason, "expired") {
		t.Errorf("%+v", d)
	}
}

// Layers: what a document leaves out is as below, and a later grace undoes never.
func TestPolicyLayers(t *testing.T) {
	p, _ := session.PolicyFor("web", nil)
	var class, own schemas.Policy
	for _, err := range []error{class.Assign("grace=1m"), class.Assign("warn=10s"), class.Assign("score=base:7"), own.Assign("grace=2m")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := p.With(class).Ruled(&schemas.Idle{Never: true})
	if !got.Never || got.Grace != time.Minute || got.Score.Base != 7 || got.Score.IdleHour != session.DefaultWeights().IdleHour {
		t.Errorf("%+v", got)
	}
	if got = got.With(own); got.Never || got.Grace != 2*time.Minute || got.Warn != 10*time.Second {
		t.Errorf("%+v", got)
	}
	if built := p.With(session.Builtin("web")); built.Grace != p.Grace || built.Score != p.Score || built.Breaker != p.Breaker || built.Backoff != p.Backoff {
		t.Errorf("what is built in, written down, is %+v; want %+v", built, p)
	}
}

// An answer that comes when the session is being suspended is late, any other hold isn't.
func TestLateAnswer(t *testing.T) {
	asks := under(t, "ask=for:30s,defer:5m,times:3")
	for _, c := range []struct {
		p    session.Policy
		key  string
		want bool
	}{{asks, schemas.AnswerKey, false}, {asks, "h", true}, {under(t), schemas.AnswerKey, true}} {
		src := schemas.Source{Name: work, Kind: schemas.KindHold, Key: c.key}
		if got := session.Undoes(schemas.Op{Idle: true}, src, schemas.Activity{}, c.p); got != c.want {
			t.Errorf("hold.%s undoes a suspend: %t", c.key, got)
		}
	}
}
