package session_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Each property is tried on thousands of histories, on more of them with DIAPAUSE_LONG=1;
// -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "2500"
	if os.Getenv("DIAPAUSE_LONG") != "" {
		checks = "100000"
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// horizon is how many seconds a history lasts.
const horizon = 900

// drawPolicy gives a policy of any shape, with times short enough to matter here.
func drawPolicy(t *rapid.T) session.Policy {
	var w schemas.Policy
	seconds := func(name string, least, most int) *schemas.Duration {
		d := schemas.Duration(time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Second)
		return &d
	}
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	w.Grace = seconds("grace", 1, 120)
	if some("has awake") {
		w.Awake = seconds("awake", 0, 200)
	}
	if some("has life") {
		w.Life = seconds("life", 60, 400)
	}
	if some("has warn") {
		w.Warn = seconds("warn", 1, 60)
	}
	if some("asks") {
		w.Ask = &schemas.Ask{For: *seconds("ask for", 1, 60), Defer: *seconds("defer", 1, 60), Times: rapid.IntRange(0, 3).Draw(t, "times")}
	}
	if some("is quiet") {
		from := rapid.IntRange(0, 14).Draw(t, "from") // t0 is 12:00
		w.Quiet = []schemas.Hours{{From: fmt.Sprintf("12:%02d", from), To: fmt.Sprintf("12:%02d", from+1)}}
	}
	if some("is deaf") {
		w.Ignore = []string{"busy.a"}
	}
	if some("counts less") {
		w.Counts = []schemas.Kind{schemas.KindInput, schemas.KindBusy, schemas.KindHold, schemas.KindOutput}
	}
	if err := w.Validate(schemas.ClassScope("web")); err != nil {
		t.Fatalf("policy %+v: %v", w, err)
	}
	p, _ := session.PolicyFor("web", nil)
	return p.With(w)
}

// drawMessage gives activity of any kind at a second; seq grows with the time.
func drawMessage(t *rapid.T, name string, i int) session.Message {
	second := rapid.IntRange(0, horizon).Draw(t, name+" at")
	m := session.Message{Source: schemas.Source{Name: work, Kind: rapid.SampledFrom(schemas.Kinds()).Draw(t, name)}, At: at(float64(second))}
	m.Seq = uint64(1000 + 100*second + i)
	if m.Source.Kind.Lease() {
		m.Source.Key = rapid.SampledFrom([]string{"a", "b", schemas.AnswerKey}).Draw(t, name+" key")
		m.Activity.TTL = schemas.Duration(time.Duration(rapid.IntRange(0, 200).Draw(t, name+" ttl")) * time.Second)
		m.Activity.Released = rapid.IntRange(0, 2).Draw(t, name+" released") == 0
	}
	if m.Source.Kind == schemas.KindAgent {
		m.Source.Key = "run_start"
	}
	if rapid.IntRange(0, 3).Draw(t, name+" is a stranger's") == 0 {
		m.Source.From = rapid.SampledFrom([]string{schemas.FromUser(1000), schemas.FromInside}).Draw(t, name+" from")
	}
	if rapid.IntRange(0, 5).Draw(t, name+" reconnects") == 0 {
		m.Activity.Intent = schemas.IntentReconnect
	}
	return m
}

func drawHistory(t *rapid.T) []session.Message {
	n := rapid.IntRange(0, 8).Draw(t, "messages")
	out := make([]session.Message, 0, n+1)
	for i := range n {
		out = append(out, drawMessage(t, fmt.Sprint("message ", i), i))
	}
	return out
}

// alive is a view of a session that runs, resumed or not.
func alive(t *rapid.T) *session.View {
	v := &session.View{HeardSince: at(-float64(rapid.IntRange(0, 100).Draw(t, "heard for")))}
	boot := rapid.SampledFrom([]schemas.Boot{schemas.BootClean, schemas.BootResume}).Draw(t, "boot")
	since := at(-float64(rapid.IntRange(0, 300).Draw(t, "runs for")))
	v.See(schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Running, Class: "web", Boot: boot, Since: since}, t0)
	return v
}

// step is something that a run of a history came to.
type step struct {
	at time.Time
	d  session.Decision
}

// live runs a history: each message is taken in when it comes, and the session is
// decided about whenever that is due, and at the times in polls, until it is suspended.
// look is called with every decision.
func live(v *session.View, p session.Policy, history []session.Message, polls []time.Time, look func(step)) (suspended time.Time) {
	heard := map[int]bool{}
	due := t0
	end := at(horizon * 3)
	for now := t0; now.Before(end); {
		for i, m := range ordered(history) {
			if !heard[i] && !m.At.After(now) {
				heard[i] = true
				v.Hear(m, p)
				due = now
			}
		}
		for _, poll := range polls {
			if poll.Equal(now) {
				look(step{now, session.Decide(v, p, now)})
			}
		}
		if !due.IsZero() && !due.After(now) {
			d := session.Decide(v, p, now)
			look(step{now, d})
			if d.Verdict == session.Notify {
				v.Notified(now)
				d = session.Decide(v, p, now)
				look(step{now, d})
			}
			if d.Verdict == session.Suspend {
				return now
			}
			due = d.Next
		}
		now = following(now, end, due, history, heard, polls)
	}
	return end
}

func following(now, end, due time.Time, history []session.Message, heard map[int]bool, polls []time.Time) time.Time {
	next := end
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	sooner(due)
	for i, m := range ordered(history) {
		if !heard[i] {
			sooner(m.At)
		}
	}
	for _, t := range polls {
		sooner(t)
	}
	return next
}

// ordered gives a history in the order of the stream.
func ordered(history []session.Message) []session.Message {
	out := append([]session.Message(nil), history...)
	for i := range out {
		for j := i; j > 0 && out[j].Seq < out[j-1].Seq; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// truly reports whether some lease that counts lives, told from the history alone.
func truly(p session.Policy, history []session.Message, now time.Time) (what string, lives bool) {
	last := map[schemas.Source]session.Message{}
	for _, m := range ordered(history) {
		if !m.Source.Kind.Lease() || m.At.After(now) {
			continue
		}
		if last[m.Source] = m; m.Activity.Released && m.Source.From == "" { // with credentials it ends those of others, too
			maps.DeleteFunc(last, func(of schemas.Source, _ session.Message) bool {
				return of.Kind == m.Source.Kind && of.Key == m.Source.Key
			})
		}
	}
	for of, m := range last {
		key := string(of.Kind) + "." + of.Key
		e := p.EffectOf(m.Source, schemas.Activity{})
		ttl := time.Duration(m.Activity.TTL)
		if ttl == 0 {
			ttl = schemas.DefaultLease
		}
		if e.Counts && !m.Activity.Released && m.At.Add(ttl).After(now) && key != "hold."+schemas.AnswerKey {
			return key, true
		}
	}
	return "", false
}

// No live lease is ever suspended, nor anything in quiet hours, before its grace or its
// life is over, too soon after a resume, or without the word that its policy promises.
func TestPropertyNeverSuspendedInUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history, v := drawPolicy(t), drawHistory(t), alive(t)
		born := v.Record.Since
		var told time.Time
		now := live(v, p, history, nil, func(s step) {
			if s.d.Verdict == session.Notify {
				told = s.at
			}
			if (s.d.Verdict == session.Suspend) != (len(s.d.Blockers) == 0) {
				t.Fatalf("%s with blockers %v", s.d.Verdict, s.d.Blockers)
			}
		})
		if now.Equal(at(horizon * 3)) {
			t.Fatalf("never suspended, though nothing is heard for %d s", 2*horizon)
		}
		if key, lives := truly(p, history, now); lives {
			t.Fatalf("suspended at %v while %s lives", now.Sub(t0), key)
		}
		for _, hours := range p.Quiet {
			if _, quiet := hours.Until(now); quiet {
				t.Fatalf("suspended at %v, in quiet hours", now.Sub(t0))
			}
		}
		expired := p.Life > 0 && !now.Before(born.Add(p.Life))
		for _, m := range history {
			if e := p.EffectOf(m.Source, m.Activity); e.Counts && !e.Lease && !m.At.After(now) && now.Before(m.At.Add(p.Grace)) && !expired {
				t.Fatalf("suspended at %v, %v after %s, the grace is %v", now.Sub(t0), now.Sub(m.At), m.Source.Kind, p.Grace)
			}
		}
		if v.Record.Boot == "resume" && now.Before(t0.Add(p.Awake)) {
			t.Fatalf("suspended %v after it came back, it is to stay for %v", now.Sub(t0), p.Awake)
		}
		if lead := leadOf(p); lead > 0 && (told.IsZero() || now.Sub(told) < lead) {
			t.Fatalf("suspended at %v, told %v before, want %v", now.Sub(t0), now.Sub(told), lead)
		}
	})
}

func leadOf(p session.Policy) time.Duration {
	if p.Ask > 0 {
		return p.Ask
	}
	return p.Warn
}

// No activity ever makes a suspend come earlier. A release ends something, and is none.
func TestPropertyActivityNeverHastens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history := drawPolicy(t), drawHistory(t)
		more := drawMessage(t, "one more", rapid.IntRange(10, 99).Draw(t, "place"))
		more.Activity.Released = false
		for _, m := range history {
			// A lease that is said again may be shortened by that: its holder wants that.
			if m.Source.Kind.Lease() && m.Source == more.Source {
				return
			}
		}
		one := alive(t)
		other := *one
		without := live(one, p, history, nil, func(step) {})
		with := live(&other, p, append(history[:len(history):len(history)], more), nil, func(step) {})
		if with.Before(without) {
			t.Fatalf("suspended at %v, and with %s %s at %v besides already at %v", without.Sub(t0), more.Source.Kind, more.Source.Key, more.At.Sub(t0), with.Sub(t0))
		}
	})
}

// With all that strangers may say, releases included, a session is suspended no earlier than if they said nothing.
// Answers to questions are left out: one that is asked later can be put off less, since the policy bounds that by a
// point in time.
func TestPropertyStrangersOnlyDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history := drawPolicy(t), drawHistory(t)
		for i := range history {
			history[i].Source.From = ""
		}
		history = slices.DeleteFunc(history, func(m session.Message) bool { return m.Source.Key == schemas.AnswerKey })
		all := slices.Clone(history)
		for i := range rapid.IntRange(1, 8).Draw(t, "words of strangers") {
			m := drawMessage(t, fmt.Sprint("stranger ", i), 50+i)
			m.Source.From = schemas.FromUser(rapid.Uint32Range(1000, 1002).Draw(t, fmt.Sprint("uid ", i)))
			all = append(all, m)
		}
		one := alive(t)
		other := *one
		without := live(one, p, history, nil, func(step) {})
		with := live(&other, p, all, nil, func(step) {})
		if with.Before(without) {
			t.Fatalf("suspended at %v, and with what strangers say already at %v", without.Sub(t0), with.Sub(t0))
		}
	})
}

// Looking changes nothing: a session that is asked about at any time is suspended at
// the same time as one that isn't.
func TestPropertyPollChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history := drawPolicy(t), drawHistory(t)
		var polls []time.Time
		for i := range rapid.IntRange(1, 10).Draw(t, "polls") {
			polls = append(polls, at(rapid.Float64Range(0, horizon).Draw(t, fmt.Sprint("poll ", i))))
		}
		one := alive(t)
		other := *one
		without := live(one, p, history, nil, func(step) {})
		with := live(&other, p, history, polls, func(step) {})
		if !with.Equal(without) {
			t.Fatalf("suspended at %v, and when asked about at %v", without.Sub(t0), with.Sub(t0))
		}
	})
}

// copyOf gives a view that shares nothing with v.
func copyOf(v *session.View) session.View {
	out := *v
	out.Known().Leases = slices.Clone(v.Known().Leases)
	return out
}

// Deciding changes neither the view nor the policy; and leases that ran out can be forgotten
// before or after it.
func TestPropertyDecideIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history, v := drawPolicy(t), drawHistory(t), alive(t)
		if rapid.Bool().Draw(t, "suspended") {
			v.Record.State = schemas.Suspended
		}
		now := at(float64(rapid.IntRange(0, horizon).Draw(t, "now")))
		for _, m := range ordered(history) {
			if !m.At.After(now) {
				v.Hear(m, p)
			}
		}
		before, under := copyOf(v), p
		under.Deaf, under.Quiet = maps.Clone(p.Deaf), slices.Clone(p.Quiet)
		first := session.Decide(v, p, now)
		if !reflect.DeepEqual(*v, before) || !reflect.DeepEqual(p, under) {
			t.Fatalf("decided %+v, and changed\n     %+v\ninto %+v", first, before, *v)
		}
		v.Forget(p, now)
		if third := session.Decide(v, p, now); !reflect.DeepEqual(first, third) {
			t.Fatalf("decided %+v\nand after leases were forgotten %+v", first, third)
		}
		later := now.Add(time.Duration(rapid.IntRange(0, horizon).Draw(t, "later")) * time.Second)
		if a, b := session.Decide(v, p, later), session.Decide(&before, p, later); !reflect.DeepEqual(a, b) {
			t.Fatalf("decided later %+v\nand without having forgotten %+v", a, b)
		}
		if a, b := v.QuietSince(p), before.QuietSince(p); !a.Equal(b) {
			t.Fatalf("quiet since %v\nand without having forgotten since %v", a, b)
		}
	})
}

// Deciding twice is deciding once, and what is decided is not later than it says.
func TestPropertyDecidingTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, history, v := drawPolicy(t), drawHistory(t), alive(t)
		now := at(float64(rapid.IntRange(0, horizon).Draw(t, "now")))
		for _, m := range ordered(history) {
			if !m.At.After(now) {
				v.Hear(m, p)
			}
		}
		before := copyOf(v)
		first := session.Decide(v, p, now)
		second := session.Decide(v, p, now)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("first %+v\nthen  %+v", first, second)
		}
		if third := session.Decide(&before, p, now); !reflect.DeepEqual(first, third) {
			t.Fatalf("of a copy %+v\nwant %+v", third, first)
		}
		if first.Verdict == session.Leave && !first.Next.After(now) {
			t.Fatalf("left, to be looked at again at %v: %v before", first.Next, now.Sub(first.Next))
		}
	})
}

// What was heard twice was heard once, in any order of the kinds: so a
// reader may start again at any time.
func TestPropertyHearingTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := drawPolicy(t), alive(t)
		history := ordered(drawHistory(t))
		for _, m := range history {
			v.Hear(m, p)
		}
		again := copyOf(v)
		for _, m := range lastOfEach(history) { // as the stream has kept them
			again.Hear(m, p)
		}
		now := at(float64(rapid.IntRange(0, 2*horizon).Draw(t, "now")))
		a, b := session.Decide(v, p, now), session.Decide(&again, p, now)
		if a.Verdict != b.Verdict || !a.Due.Equal(b.Due) {
			t.Fatalf("heard once: %s, due %v; twice: %s, due %v", a.Verdict, a.Due, b.Verdict, b.Due)
		}
	})
}

func lastOfEach(history []session.Message) (out []session.Message) {
	for i, m := range history {
		last := true
		for _, later := range history[i+1:] {
			last = last && later.Source != m.Source
		}
		if last {
			out = append(out, m)
		}
	}
	return out
}
