package replay_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/schemas"
)

var seed = flag.Uint64("day.seed", 1, "of the day of synthetic life")

var morning = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// someone is one session of the day as it is made up: what is truly needed of it, and
// what is said.
type someone struct {
	*rand.Rand
	class  string
	memory float64 // bytes
	now    time.Time
	end    time.Time
	seq    uint64
	said   []session.Message
	needed []span // when it is in use, by the model's own truth
}

type span struct{ from, to time.Time }

func (s *someone) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.Float64()*float64(most-least))
}

func (s *someone) chance(p float64) bool { return s.Float64() < p }

func (s *someone) say(at time.Time, k schemas.Kind, key string, a schemas.Activity) {
	if at.Before(s.end) {
		s.said = append(s.said, session.Message{Source: schemas.Source{Kind: k, Key: key}, Activity: a, At: at})
	}
}

// renew keeps a lease alive from one time to another, every third of its ttl, as publishers do.
func (s *someone) renew(from, to time.Time, k schemas.Kind, key string, ttl time.Duration) {
	for at := from; at.Before(to); at = at.Add(ttl / 3) {
		s.say(at, k, key, schemas.Activity{TTL: schemas.Duration(ttl)})
	}
}

func (s *someone) release(at time.Time, k schemas.Kind, key string) {
	s.say(at, k, key, schemas.Activity{Released: true})
	if s.chance(0.3) { // a client that closes twice
		s.say(at.Add(s.between(0, 20*time.Second)), k, key, schemas.Activity{Released: true})
	}
}

func (s *someone) need(from, to time.Time) { s.needed = append(s.needed, span{from, to}) }

// sitting is a person before a page: input, a connection that is refreshed and drops, and at the
// end a page that is closed, or a machine that dies.
func (s *someone) sitting() {
	from := s.now
	to := from.Add(s.between(time.Minute, 40*time.Minute))
	for at := from; at.Before(to); at = at.Add(s.between(time.Second, 2*time.Minute)) {
		s.say(at, schemas.KindInput, "", schemas.Activity{})
	}
	for at := from; at.Before(to); at = at.Add(30 * time.Second) {
		s.say(at, schemas.KindHeartbeat, "", schemas.Activity{})
	}
	n := 0
	for at := from; at.Before(to); n++ {
		key := fmt.Sprint("page-", s.seq, "-", n)
		until := earlier(at.Add(s.between(time.Minute, 15*time.Minute)), to)
		s.renew(at, until, schemas.KindPresence, key, time.Minute)
		if s.chance(0.8) { // else it drops, and its lease runs out
			s.release(until.Add(s.between(0, 5*time.Second)), schemas.KindPresence, key) // after the next began
		}
		at = until
	}
	s.need(from, to)
	s.now = to
	s.seq++
}

// build is a long job in a terminal, with no input: the worker sees its foreground.
func (s *someone) build() {
	from := s.now
	to := from.Add(s.between(10*time.Minute, 3*time.Hour))
	s.say(from, schemas.KindInput, "", schemas.Activity{})
	s.renew(from, to, schemas.KindBusy, "foreground", 30*time.Second)
	s.need(from, to)
	s.now = to
}

// task is an agent that works: it says so, or is seen to; silent for hours perhaps; and may crash.
func (s *someone) task() {
	from := s.now
	to := from.Add(s.between(20*time.Second, 2*time.Hour))
	s.say(from, schemas.KindExec, "", schemas.Activity{})
	key, ttl := "run", time.Minute
	if s.chance(0.4) {
		key, ttl = "cpu", 30*time.Second
	}
	s.renew(from, to, schemas.KindBusy, key, ttl)
	if s.chance(0.7) && key == "run" { // else it crashed, and its lease runs out
		s.release(to, schemas.KindBusy, key)
	}
	if s.chance(0.5) {
		for at := from; at.Before(to); at = at.Add(s.between(time.Second, time.Minute)) {
			s.say(at, schemas.KindOutput, "", schemas.Activity{})
		}
	}
	s.need(from, to)
	s.now = to
}

// away has no client: except one that reconnects by itself, and a page that shows what
// there was.
func (s *someone) away(least, most time.Duration) {
	to := s.now.Add(s.between(least, most))
	for at := s.now.Add(s.between(0, time.Hour)); at.Before(to); at = at.Add(s.between(10*time.Minute, 3*time.Hour)) {
		s.say(at, schemas.KindHTTP, "", schemas.Activity{Intent: schemas.IntentReconnect})
	}
	s.now = to
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// person makes up the day of one session.
func person(i int) (*someone, replay.Life) {
	s := &someone{Rand: rand.New(rand.NewPCG(*seed, uint64(i))), now: morning, end: morning.Add(24 * time.Hour)}
	s.class = []string{"web", "automation", "terminal"}[i%3]
	s.memory = 50e6 * float64(uint64(1)<<s.IntN(6)) // 50 MB to 1.6 GB
	s.now = s.now.Add(s.between(0, 4*time.Hour))
	from := s.now
	for s.now.Before(s.end) {
		switch {
		case s.class == "web":
			s.sitting()
			s.away(30*time.Second, 6*time.Hour)
		case s.class == "automation":
			s.task()
			s.away(5*time.Second, 3*time.Hour)
		case s.chance(0.5):
			s.build()
			s.away(0, time.Hour)
		default:
			s.sitting()
			s.away(0, 8*time.Hour)
		}
	}
	slices.SortStableFunc(s.said, func(a, b session.Message) int { return a.At.Compare(b.At) })
	n := schemas.Name{Tenant: "day", Session: schemas.SessionID(fmt.Sprint("s", i))}
	for j := range s.said {
		s.said[j].Seq, s.said[j].Source.Name = uint64(j+1), n
	}
	r := schemas.SessionRecord{UID: schemas.UID(fmt.Sprint("u", i)), Tenant: n.Tenant, Session: n.Session, Class: s.class, State: schemas.Running, Boot: "clean", Since: from}
	return s, replay.Life{Record: r, From: from, To: s.end, Said: s.said}
}

// quiet gives the times in which nothing is heard that counts, told from what was said
// alone, by the rules of the documents: the grace begins with activity that counts, with
// the word of a busy lease and its release; leases count until they end.
func (s *someone) quiet(from time.Time) (out []span) {
	used, leases := from, map[string]time.Time{}
	last := func() time.Time {
		end := used
		for _, l := range leases {
			end = later(end, l)
		}
		return end
	}
	for _, m := range s.said {
		k, key := m.Source.Kind, string(m.Source.Kind)+m.Source.Key
		if k == schemas.KindOutput || m.Activity.Intent != "" {
			continue
		}
		if was := last(); m.At.After(was) && !m.Activity.Released {
			out = append(out, span{was, m.At})
		}
		switch {
		case !k.Lease():
			used = m.At
		case m.Activity.Released:
			if k == schemas.KindBusy && leases[key].After(m.At) {
				used = m.At
			}
			if leases[key].After(m.At) {
				leases[key] = m.At
			}
		default:
			leases[key] = m.At.Add(time.Duration(m.Activity.TTL))
			if k == schemas.KindBusy {
				used = m.At
			}
		}
	}
	return append(out, span{last(), s.end})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var costs = replay.Costs{Suspend: time.Second, Resume: 500 * time.Millisecond}

// tally is what came of one way to decide.
type tally struct {
	name string
	schemas.Outcome
	wrongly int           // suspended while it was needed
	stopped time.Duration // of what was needed
}

func (a *tally) add(s *someone, naps []replay.Nap) {
	replay.Sum(&a.Outcome, naps, costs, s.memory)
	for _, n := range naps {
		for _, need := range s.needed {
			if !n.From.Before(need.from) && n.From.Before(need.to) {
				a.wrongly++
				a.stopped += earlier(n.To, need.to).Sub(n.From)
			}
		}
	}
}

// others are what people use today, told as policies: timers since the last request or
// input, and a time that a session may run.
func others(t *testing.T) map[string]session.Policy {
	out := map[string]session.Policy{}
	p, _ := session.PolicyFor("web", nil)
	for _, minutes := range []int{5, 15, 30} {
		grace := schemas.Duration(time.Duration(minutes) * time.Minute)
		out[fmt.Sprintf("timer of %2d minutes", minutes)] = p.With(schemas.Policy{Grace: &grace, Counts: []schemas.Kind{"input", "exec", "http", "hold"}})
	}
	never, life := true, schemas.Duration(time.Hour)
	out["1 h since creation"] = p.With(schemas.Policy{Never: &never, Life: &life, Counts: []schemas.Kind{"hold"}})
	return out
}

// A day of web, agent and terminal sessions, with refreshes, drops, long builds, silent
// agents, clients that close twice and publishers that crash: no session is suspended while its user
// is needed, and all that are idle are, within their grace and 2 s.
func TestDay(t *testing.T) {
	sessions := 120
	if os.Getenv("DIAPAUSE_LONG") != "" {
		sessions = 10_000
	}
	ours := &tally{name: "Diapause"}
	all := []*tally{ours}
	byName := others(t)
	for name := range byName {
		all = append(all, &tally{name: name})
	}
	said, late := 0, time.Duration(0)
	for i := range sessions {
		s, life := person(i)
		said += len(s.said)
		p, ok := session.PolicyFor(s.class, nil)
		if !ok {
			t.Fatalf("no class %s", s.class)
		}
		naps := replay.Run(life, p, costs)
		ours.add(s, naps)
		late = max(late, suspendedInTime(t, life.Record, s, p, life.From, naps))
		for _, a := range all[1:] {
			a.add(s, replay.Run(life, byName[a.name], costs))
		}
	}
	if ours.wrongly > 0 {
		t.Errorf("seed %d: %d times a session was suspended while it was needed", *seed, ours.wrongly)
	}
	if ours.Suspends < sessions {
		t.Errorf("seed %d: %d suspends of %d sessions in a day", *seed, ours.Suspends, sessions)
	}
	report(t, sessions, said, late, all)
}

// suspendedInTime checks that every silence that is long enough has its nap.
func suspendedInTime(t *testing.T, r schemas.SessionRecord, s *someone, p session.Policy, from time.Time, naps []replay.Nap) (late time.Duration) {
	t.Helper()
	for _, q := range s.quiet(from) {
		// A lease that ended long after the last use leaves no grace to wait for.
		due := q.from.Add(p.Grace + 2*time.Second)
		if !due.Before(q.to) {
			continue
		}
		i := slices.IndexFunc(naps, func(n replay.Nap) bool { return n.From.Before(due) && n.To.After(due.Add(-time.Second)) })
		if i < 0 {
			t.Fatalf("seed %d: session %s (%s) isn't suspended at %v, though nothing is heard from %v to %v", *seed, r.Session, s.class, due.Sub(morning), q.from.Sub(morning), q.to.Sub(morning))
		}
		late = max(late, naps[i].From.Sub(q.from.Add(p.Grace)))
	}
	return late
}

func report(t *testing.T, sessions, said int, late time.Duration, all []*tally) {
	slices.SortFunc(all[1:], func(a, b *tally) int { return slices.Compare([]byte(a.name), []byte(b.name)) })
	t.Logf("a day of %d sessions, seed %d: %d messages; the latest suspend %v after its grace", sessions, *seed, said, late)
	t.Logf("%-20s %9s %9s %12s %10s %8s %16s", "", "suspends", "resumes", "GiB h saved", "woken<2min", "wrongly", "needed, stopped")
	for _, a := range all {
		t.Logf("%-20s %9d %9d %12.0f %10d %8d %15.0fh", a.name, a.Suspends, a.Resumes, a.SavedGiBh, a.Wrong, a.wrongly, a.stopped.Hours())
	}
}
