package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

var (
	t0   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	work = schemas.Name{Tenant: "default", Session: "work"}
)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// running is a view of a session of class web (grace 5 min) that came to run at
// t0.
func running() *session.View {
	v := &session.View{HeardSince: t0}
	v.See(schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Running, Class: "web"}, t0)
	return v
}

func heard(v *session.View, seq uint64, when float64, kind schemas.Kind, key string, a schemas.Activity) {
	p, _ := session.PolicyFor("web", v.Record.Idle)
	v.Hear(session.Message{Source: schemas.Source{Name: work, Kind: kind, Key: key}, Activity: a, Seq: seq, At: at(when)}, p)
}

func decide(v *session.View, when float64) session.Decision {
	p, _ := session.PolicyFor("web", v.Record.Idle)
	return session.Decide(v, p, at(when))
}

func TestGrace(t *testing.T) {
	const grace = 300
	ttl := func(s int) schemas.Activity {
		return schemas.Activity{TTL: schemas.Duration(time.Duration(s) * time.Second)}
	}
	for name, c := range map[string]struct {
		setup   func(*session.View)
		suspend float64 // the first second at which it is suspended
	}{
		"from when it came to run":              {func(*session.View) {}, grace},
		"input counts":                          {func(v *session.View) { heard(v, 1, 100, "input", "", schemas.Activity{}) }, 100 + grace},
		"a heartbeat counts":                    {func(v *session.View) { heard(v, 1, 100, "heartbeat", "", schemas.Activity{}) }, 100 + grace},
		"output doesn't":                        {func(v *session.View) { heard(v, 1, 100, "output", "", schemas.Activity{}) }, grace},
		"a reconnect doesn't":                   {func(v *session.View) { heard(v, 1, 100, "http", "", schemas.Activity{Intent: "reconnect"}) }, grace},
		"presence counts while it lives":        {func(v *session.View) { heard(v, 1, 100, "presence", "c1", ttl(500)) }, 600},
		"a lost connection keeps nothing awake": {func(v *session.View) { heard(v, 1, 290, "presence", "c1", ttl(20)) }, 310},
		"a released one blocks nothing": {func(v *session.View) {
			heard(v, 1, 100, "hold", "h", ttl(900))
			heard(v, 2, 200, "hold", "h", schemas.Activity{Released: true})
		}, grace},
		"a release that comes twice does no harm": {func(v *session.View) {
			heard(v, 2, 200, "hold", "h", schemas.Activity{Released: true})
			heard(v, 1, 100, "hold", "h", ttl(900))
		}, grace},
		"an older word never undoes a newer": {func(v *session.View) {
			heard(v, 5, 200, "input", "", schemas.Activity{})
			heard(v, 3, 250, "input", "", schemas.Activity{})
		}, 200 + grace},
		"busy begins a grace when it is released": {func(v *session.View) {
			heard(v, 1, 100, "busy", "build", ttl(900))
			heard(v, 2, 400, "busy", "build", schemas.Activity{Released: true})
		}, 400 + grace},
		"a second release of it doesn't": {func(v *session.View) {
			heard(v, 1, 100, "busy", "build", ttl(900))
			heard(v, 2, 150, "busy", "build", schemas.Activity{Released: true})
			heard(v, 3, 300, "busy", "build", schemas.Activity{Released: true})
		}, 150 + grace},
		"busy begins a grace when it ends":         {func(v *session.View) { heard(v, 1, 400, "busy", "cpu", ttl(3)) }, 400 + grace},
		"what spoke of an earlier session is mute": {func(v *session.View) { v.Record.Born = 9; heard(v, 8, 100, "hold", "h", ttl(9000)) }, grace},
		"a gap in hearing restarts every grace":    {func(v *session.View) { v.HeardSince = at(200) }, 200 + grace},
		"an own rule replaces the class's":         {func(v *session.View) { v.Record.Idle = &schemas.Idle{Grace: 5000} }, 5},
		"a failed suspend backs off":               {func(v *session.View) { v.Record.Failure = &schemas.Failure{Op: "suspend", Count: 1, At: at(299)} }, 309},
	} {
		t.Run(name, func(t *testing.T) {
			v := running()
			c.setup(v)
			before, then := decide(v, c.suspend-0.001), decide(v, c.suspend)
			if before.Verdict != session.Leave || len(before.Blockers) == 0 {
				t.Errorf("just before %v s: %s, blockers %v", c.suspend, before.Verdict, before.Blockers)
			}
			if before.Next.Before(at(c.suspend-1)) || before.Next.After(at(c.suspend)) {
				t.Errorf("it will be looked at again at %v, want %v", before.Next.Sub(t0), c.suspend)
			}
			if then.Verdict != session.Suspend {
				t.Errorf("at %v s: %s because of %v", c.suspend, then.Verdict, then.Blockers)
			}
		})
	}
}

func TestNeverSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(*session.View)
		why   string
	}{
		"never":        {func(v *session.View) { v.Record.Idle = &schemas.Idle{Never: true} }, "never"},
		"open breaker": {func(v *session.View) { v.Record.Failure = &schemas.Failure{Op: "suspend", Count: 3, At: t0} }, "3 suspends failed"},
		"a checkpoint": {func(v *session.View) { v.Record.Op = &schemas.Op{Kind: "checkpoint"} }, "checkpoint is under way"},
	} {
		t.Run(name, func(t *testing.T) {
			v := running()
			c.setup(v)
			d := decide(v, 1e6)
			if d.Verdict != session.Leave || !d.Next.IsZero() {
				t.Fatalf("%s, next %v", d.Verdict, d.Next)
			}
			if !strings.Contains(d.Reason, c.why) {
				t.Errorf("reason %q doesn't say %q", d.Reason, c.why)
			}
		})
	}
}

// One that is stopped when its suspends fail was in use after they had: it is to be
// suspended once more when it is idle.
func TestOpenBreakerOfOneThatIsStopped(t *testing.T) {
	v := running()
	v.Record.Failure, v.Record.OnBreaker = &schemas.Failure{Op: "suspend", Count: 3, At: t0}, schemas.BreakerStop
	if d := decide(v, 1e6); d.Verdict != session.Suspend {
		t.Errorf("%s: %s", d.Verdict, d.Reason)
	}
	v.Record.Failure.At = at(1e6)
	if d := decide(v, 1e6); d.Verdict != session.Leave || d.Next.IsZero() {
		t.Errorf("right after the failure: %s, next %v", d.Verdict, d.Next)
	}
}

func TestWaking(t *testing.T) {
	suspended := func() *session.View {
		v := running()
		v.See(schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Suspended, Class: "web", Seq: 10}, at(400))
		return v
	}
	for name, c := range map[string]struct {
		seq  uint64
		kind schemas.Kind
		key  string
		a    schemas.Activity
		want session.Verdict
	}{
		"input wakes":                         {11, "input", "", schemas.Activity{}, session.Wake},
		"exec wakes":                          {11, "exec", "", schemas.Activity{}, session.Wake},
		"http wakes":                          {11, "http", "", schemas.Activity{}, session.Wake},
		"what was known then doesn't":         {10, "input", "", schemas.Activity{}, session.Leave},
		"a reconnect doesn't":                 {11, "http", "", schemas.Activity{Intent: "reconnect"}, session.Leave},
		"a page that shows it doesn't":        {11, "heartbeat", "", schemas.Activity{}, session.Leave},
		"output doesn't":                      {11, "output", "", schemas.Activity{}, session.Leave},
		"a connection that lives on doesn't":  {11, "presence", "c", schemas.Activity{}, session.Leave},
		"a hold doesn't, it only keeps it so": {11, "hold", "h", schemas.Activity{}, session.Leave},
		"an agent that was busy doesn't":      {11, "busy", "o", schemas.Activity{}, session.Leave},
	} {
		t.Run(name, func(t *testing.T) {
			v := suspended()
			heard(v, c.seq, 500, c.kind, c.key, c.a)
			if d := decide(v, 501); d.Verdict != c.want {
				t.Errorf("%s (%s), want %s", d.Verdict, d.Reason, c.want)
			}
		})
	}
}

// A suspend that a client asked for is undone only by what would wake the
// session; one for idleness by all that counts.
func TestUndoes(t *testing.T) {
	p, _ := session.PolicyFor("web", nil)
	for _, c := range []struct {
		kind         schemas.Kind
		key          string
		idle, manual bool
	}{
		{"input", "", true, true}, {"heartbeat", "", true, false}, {"presence", "c", true, false},
		{"busy", "cpu", true, false}, {"output", "", false, false},
	} {
		src := schemas.Source{Name: work, Kind: c.kind, Key: c.key}
		if got := session.Undoes(schemas.Op{Idle: true}, src, schemas.Activity{}, p); got != c.idle {
			t.Errorf("%s undoes an idle suspend: %t", c.kind, got)
		}
		if got := session.Undoes(schemas.Op{}, src, schemas.Activity{}, p); got != c.manual {
			t.Errorf("%s undoes a manual suspend: %t", c.kind, got)
		}
	}
}

// A name that is used again: what was said of the earlier session neither keeps
// this one awake, nor would it undo its suspend.
func TestReusedName(t *testing.T) {
	v := running()
	heard(v, 5, 10, "input", "", schemas.Activity{})
	heard(v, 6, 10, "hold", "h", schemas.Activity{TTL: schemas.Duration(time.Hour)})
	heard(v, 9, 20, "hold", "early", schemas.Activity{TTL: schemas.Duration(2000 * time.Second)}) // before the new record is seen
	v.See(schemas.SessionRecord{UID: "u2", Tenant: "default", Session: "work", State: schemas.Running, Class: "web", Born: 8}, at(100))
	d := decide(v, 450)
	if d.Verdict != session.Leave || len(d.Blockers) != 1 || !strings.Contains(d.Blockers[0].What, "hold.early") {
		t.Fatalf("blockers %v, want the hold on the new session alone", d.Blockers)
	}
	v.See(schemas.SessionRecord{UID: "u3", Tenant: "default", Session: "work", State: schemas.Running, Class: "web", Born: 30}, at(3000))
	if d := decide(v, 3300); d.Verdict != session.Suspend || d.Evidence.Seq != 30 {
		t.Fatalf("%s on what was known up to %d, want a suspend on all up to its birth at 30", d.Verdict, d.Evidence.Seq)
	}
}

// While a suspended session's frozen processes are there, its worker answers
// activity; after a resume that failed there is a pause.
func TestWakingWaits(t *testing.T) {
	v := running()
	rec := schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Suspended, Class: "web", Op: &schemas.Op{Kind: schemas.OpReap}}
	v.See(rec, at(400))
	heard(v, 3, 401, "input", "", schemas.Activity{})
	if d := decide(v, 402); d.Verdict != session.Leave {
		t.Errorf("%s while the reap is under way", d.Verdict)
	}
	rec.Op = nil
	v.See(rec, at(403))
	if d := decide(v, 403); d.Verdict != session.Wake {
		t.Errorf("%s after the reap", d.Verdict)
	}
	v.See(schemas.SessionRecord{UID: "u", State: schemas.Resuming, Seq: 3}, at(404))
	rec.Seq, rec.Failure = 3, &schemas.Failure{Op: schemas.OpResume, Count: 3, At: t0.Add(1e6 * time.Hour)} // by a clock that is off
	v.See(rec, at(405))
	heard(v, 4, 406, "input", "", schemas.Activity{})
	if d := decide(v, 406); d.Verdict != session.Leave || !d.Next.Equal(at(415)) {
		t.Errorf("%s, next %v, right after a resume that failed", d.Verdict, d.Next)
	}
	if d := decide(v, 415); d.Verdict != session.Wake {
		t.Errorf("%s after the pause", d.Verdict)
	}
}

// Anyone may publish leases under any key: only so many are remembered, and the
// one that ends last among them.
func TestLeasesAreBounded(t *testing.T) {
	v := running()
	heard(v, 1, 1, "hold", "real", schemas.Activity{TTL: schemas.Duration(24 * time.Hour)})
	for i := range 5000 {
		heard(v, uint64(i+2), 2, "presence", fmt.Sprint("k", i), schemas.Activity{TTL: schemas.Duration(time.Hour)})
	}
	d := decide(v, 1000)
	if len(d.Blockers) > 200 || !slices.ContainsFunc(d.Blockers, func(b schemas.WaitingFor) bool { return b.What == "hold.real" }) {
		t.Errorf("%d leases are remembered, or the hold isn't among them", len(d.Blockers))
	}
}

// In a state in which nothing is decided it is said what happens, not the state again.
func TestNothingToDecide(t *testing.T) {
	for _, state := range []schemas.State{schemas.Starting, schemas.Suspending, schemas.Resuming, schemas.Exited, schemas.Failed, schemas.Deleted} {
		v := session.View{Record: schemas.SessionRecord{State: state}}
		if d := session.Decide(&v, session.Policy{}, time.Now()); d.Verdict != session.Leave || d.Reason == "" || strings.Contains(d.Reason, string(state)) {
			t.Errorf("%s: %s: %q", state, d.Verdict, d.Reason)
		}
	}
}
