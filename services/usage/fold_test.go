package usage_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/usage"
)

var start = time.Date(2026, 5, 1, 9, 30, 0, 0, time.UTC)

// all is for counting the time of every session.
func all(*usage.Session) bool { return false }

// life writes the log of one session.
type life struct {
	fail func(format string, args ...any)
	now  statekv.Versioned
	log  []statekv.Versioned
}

func (l *life) do(at time.Time, t schemas.TransitionType, set schemas.Set) {
	next, err := session.Apply(l.now.SessionRecord, schemas.Transition{Type: t, At: at, Set: set})
	if err != nil {
		l.fail("%v", err)
	}
	l.now = statekv.Versioned{SessionRecord: next, Stored: at}
	l.log = append(l.log, l.now)
}

func (l *life) run(at time.Time, name, uid string) {
	l.do(at, schemas.TRun, schemas.Set{New: &schemas.NewSession{UID: schemas.UID(uid), Tenant: "acme", Session: schemas.SessionID(name)}, Op: &schemas.Op{Kind: schemas.OpStart}})
}

func size(stored int64) schemas.Set {
	return schemas.Set{Head: &schemas.Head{Name: "h"}, Size: &schemas.Sizes{Logical: 10 * stored, Stored: stored}}
}

// counted is all the time in an amount.
func counted(a usage.Amount) time.Duration { return a.Running + a.Suspended + a.Other }

func after(minutes float64) time.Time {
	return start.Add(time.Duration(minutes * float64(time.Minute)))
}

// One life, counted by hand.
func TestFold(t *testing.T) {
	l := &life{fail: t.Fatalf}
	l.run(after(0), "web", "u1")
	l.do(after(1), schemas.TStarted, schemas.Set{})
	l.do(after(11), schemas.TCheckpoint, schemas.Set{})
	l.do(after(11), schemas.TCheckpointed, size(1000))
	l.do(after(31), schemas.TSuspend, schemas.Set{})
	l.do(after(32), schemas.TSuspended, size(500))
	l.do(after(32.5), schemas.TReaped, schemas.Set{})
	l.do(after(92), schemas.TResume, schemas.Set{Op: &schemas.Op{}})
	l.do(after(93), schemas.TResumed, schemas.Set{})
	l.do(after(103), schemas.TExited, schemas.Set{})
	l.do(after(113), schemas.TRemove, schemas.Set{})
	l.do(after(114), schemas.TRemoved, schemas.Set{})
	f := usage.NewFold(after(30), after(91)) // 10:00 and 11:01
	f.Measured(schemas.Name{Tenant: "acme", Session: "web"}, "u1", after(62), 300)
	for _, v := range l.log {
		f.Add(v)
	}
	f.Advance(after(1000), all)
	var s *usage.Session
	for one := range f.Sessions {
		s = one
	}
	want := []usage.Amount{
		{Running: 29 * time.Minute, Other: time.Minute, Checkpoints: 1, Captured: 10000, Written: 1000, ByteSeconds: 19 * 60 * 1000, Used: 19 * 60 * 10000},
		{Running: 2 * time.Minute, Suspended: 59 * time.Minute, Suspends: 1, Captured: 5000, Written: 500, ByteSeconds: 60 * (2*1000 + 30*1500 + 29*300), Used: 2 * 60 * 10000, Saved: 59 * 60 * 5000},
		{Running: 10 * time.Minute, Suspended: time.Minute, Other: 11 * time.Minute, Resumes: 1, ByteSeconds: 60 * 23 * 300, Used: 10 * 60 * 5000, Saved: 60 * 5000},
	}
	for zone, w := range want {
		if got := s.In(zone); got != w {
			t.Errorf("zone %d: %+v, want %+v", zone, got, w)
		}
	}
	if s.Stored != 0 || s.State != schemas.Deleted {
		t.Errorf("at the end %d bytes, %s", s.Stored, s.State)
	}
}

// A template takes room in the store, and no time.
func TestFoldOfATemplate(t *testing.T) {
	l := &life{fail: t.Fatalf}
	l.do(after(0), schemas.TTemplate, schemas.Set{Op: &schemas.Op{Kind: schemas.OpRewrite}, New: &schemas.NewSession{UID: "u1", Tenant: "acme", Session: "-template-py"}})
	l.do(after(10), schemas.TRewritten, size(1000))
	l.do(after(40), schemas.TRemove, schemas.Set{Op: &schemas.Op{Kind: schemas.OpRemove}})
	l.do(after(41), schemas.TShredded, schemas.Set{})
	f := usage.NewFold(after(0), after(20))
	for _, v := range l.log {
		f.Add(v)
	}
	f.Advance(after(100), all)
	for s := range f.Sessions {
		if got, want := s.In(1), (usage.Amount{Captured: 10000, Written: 1000, ByteSeconds: 10 * 60 * 1000}); got != want {
			t.Errorf("while it was there %+v, want %+v", got, want)
		}
		if s.Stored != 0 {
			t.Errorf("removed, it takes %d bytes", s.Stored)
		}
	}
}

// A name that is used again is another session.
func TestFoldNameUsedAgain(t *testing.T) {
	l := &life{fail: t.Fatalf}
	l.run(after(0), "web", "u1")
	l.do(after(0), schemas.TStarted, schemas.Set{})
	l.do(after(10), schemas.TRemove, schemas.Set{})
	l.do(after(10), schemas.TRemoved, schemas.Set{})
	l.run(after(20), "web", "u2")
	l.do(after(20), schemas.TStarted, schemas.Set{})
	f := usage.NewFold()
	for _, v := range l.log {
		f.Add(v)
	}
	f.Advance(after(25), all)
	got := map[schemas.UID]time.Duration{}
	for s := range f.Sessions {
		got[s.UID] = s.In(0).Running
	}
	if len(got) != 2 || got["u1"] != 10*time.Minute || got["u2"] != 5*time.Minute {
		t.Errorf("got %v", got)
	}
}

// drawn is a log of several sessions, each legal, interleaved; writers' clocks may be
// hours off and go back, the log's own goes on.
func drawn(t *rapid.T, wrong bool) []statekv.Versioned {
	types := []schemas.TransitionType{
		schemas.TClaimed, schemas.TStarted, schemas.TStartFailed, schemas.TSuspend, schemas.TSuspendAborted, schemas.TSuspended, schemas.TRevived,
		schemas.TReaped, schemas.TResume, schemas.TRestart, schemas.TResumed, schemas.TResumeFailed, schemas.TCheckpoint, schemas.TCheckpointed,
		schemas.TCheckpointFailed, schemas.TExited, schemas.TLost, schemas.TRemove, schemas.TRemoved,
	}
	lives := make([]*life, rapid.IntRange(1, 4).Draw(t, "sessions"))
	for i := range lives {
		lives[i] = &life{fail: t.Fatalf}
	}
	var log []statekv.Versioned
	stored := start
	for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
		stored = stored.Add(time.Duration(rapid.Int64Range(0, int64(90*time.Minute)).Draw(t, "pause")))
		at := stored
		if wrong {
			at = at.Add(time.Duration(rapid.Int64Range(int64(-5*time.Hour), int64(5*time.Hour)).Draw(t, "off")))
		}
		i := rapid.IntRange(0, len(lives)-1).Draw(t, "whose")
		l := lives[i]
		if l.now.State == "" || l.now.State == schemas.Deleted && rapid.Bool().Draw(t, "again") {
			l.run(at, fmt.Sprintf("s%d", i), fmt.Sprintf("u%d-%d", i, step))
		} else {
			legal := slices.DeleteFunc(slices.Clone(types), func(x schemas.TransitionType) bool { return !session.Can(l.now.State, x) })
			var set schemas.Set
			x := rapid.SampledFrom(legal).Draw(t, "transition")
			switch x {
			case schemas.TSuspended, schemas.TCheckpointed:
				set = size(rapid.Int64Range(0, 1<<30).Draw(t, "bytes"))
			}
			l.do(at, x, set)
		}
		l.log[len(l.log)-1].Stored = stored
		log = append(log, l.log[len(l.log)-1])
	}
	return log
}

// sums folds a log and gives what each session used in each zone.
func sums(log []statekv.Versioned, until time.Time, edges ...time.Time) (out map[schemas.UID][]usage.Amount) {
	f := usage.NewFold(edges...)
	for _, v := range log {
		f.Add(v)
	}
	f.Advance(until, all)
	out = map[schemas.UID][]usage.Amount{}
	for s := range f.Sessions {
		for zone := range len(edges) + 1 {
			out[s.UID] = append(out[s.UID], s.In(zone))
		}
	}
	return out
}

func sum(zones []usage.Amount) (total usage.Amount) {
	for _, a := range zones {
		total = total.Plus(a)
	}
	return total
}

func same(a, b usage.Amount) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(math.Abs(x), math.Abs(y), 1) }
	if !near(a.ByteSeconds, b.ByteSeconds) || !near(a.Used, b.Used) || !near(a.Saved, b.Saved) {
		return false
	}
	a.ByteSeconds, a.Used, a.Saved = b.ByteSeconds, b.Used, b.Saved
	return a == b
}

// Wherever the time is cut, and however often, the sums are those of the whole.
func TestCutsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawn(t, rapid.Bool().Draw(t, "wrong clocks"))
		until := log[len(log)-1].Stored.Add(time.Hour)
		edges := make([]time.Time, rapid.IntRange(1, 4).Draw(t, "edges"))
		for i := range edges {
			edges[i] = start.Add(time.Duration(rapid.Int64Range(int64(-time.Hour), int64(60*time.Hour)).Draw(t, "edge")))
		}
		slices.SortFunc(edges, time.Time.Compare)
		whole, parts := sums(log, until), sums(log, until, edges...)
		if len(whole) != len(parts) {
			t.Fatalf("%d sessions, in parts %d", len(whole), len(parts))
		}
		for uid, zones := range parts {
			if !same(sum(zones), whole[uid][0]) {
				t.Fatalf("session %s: in parts %+v, whole %+v", uid, sum(zones), whole[uid][0])
			}
			for zone, a := range zones {
				if a.Running < 0 || a.Suspended < 0 || a.Other < 0 || a.ByteSeconds < 0 {
					t.Fatalf("session %s: negative: %+v", uid, a)
				}
				if zone > 0 && zone < len(edges) && counted(a) > edges[zone].Sub(edges[zone-1]) {
					t.Fatalf("session %s: %s in a zone of %s", uid, counted(a), edges[zone].Sub(edges[zone-1]))
				}
			}
		}
	})
}

// Each session's sums are what its own revisions alone come to: who else is in the log
// doesn't matter.
func TestSessionsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawn(t, rapid.Bool().Draw(t, "wrong clocks"))
		until := log[len(log)-1].Stored
		together := sums(log, until)
		for _, n := range []schemas.SessionID{"s0", "s1", "s2", "s3"} {
			own := slices.DeleteFunc(slices.Clone(log), func(v statekv.Versioned) bool { return v.Session != n })
			for uid, a := range sums(own, until) {
				if !same(a[0], together[uid][0]) {
					t.Fatalf("session %s: alone %+v, among others %+v", uid, a[0], together[uid][0])
				}
			}
		}
	})
}

// With right clocks the seconds are exactly those between the transitions. With wrong
// ones a session never has more than the time that it was in the log, and what is held
// against a clock.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrong := rapid.Bool().Draw(t, "wrong clocks")
		log := drawn(t, wrong)
		until := log[len(log)-1].Stored
		exact := map[schemas.UID]map[schemas.State]time.Duration{}
		first, last := map[schemas.UID]time.Time{}, map[schemas.UID]statekv.Versioned{}
		for _, v := range log {
			if exact[v.UID] == nil {
				exact[v.UID], first[v.UID] = map[schemas.State]time.Duration{}, v.Stored
			} else {
				exact[v.UID][last[v.UID].State] += v.Stored.Sub(last[v.UID].Stored)
			}
			last[v.UID] = v
		}
		for uid, zones := range sums(log, until) {
			got := zones[0]
			if counted(got) > until.Sub(first[uid])+time.Hour {
				t.Fatalf("session %s: %s counted of %s", uid, counted(got), until.Sub(first[uid]))
			}
			if wrong {
				continue
			}
			e := exact[uid]
			e[last[uid].State] += until.Sub(last[uid].Stored)
			if got.Running != e[schemas.Running]+e[schemas.Suspending] || got.Suspended != e[schemas.Suspended] ||
				got.Other != e[schemas.Starting]+e[schemas.Resuming]+e[schemas.Exited]+e[schemas.Failed] {
				t.Fatalf("session %s: %+v, want %v", uid, got, e)
			}
		}
	})
}

// Periods that follow each other, each dropped when it is over, come to the same as the
// whole, also if who sleeps is counted later.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrong := rapid.Bool().Draw(t, "wrong clocks")
		log := drawn(t, wrong)
		until := log[len(log)-1].Stored
		edge := start.Truncate(time.Hour)
		f := usage.NewFold(edge)
		got := map[schemas.UID]usage.Amount{}
		lazy := rapid.Bool().Draw(t, "lazy")
		take := func() {
			f.Advance(edge, func(s *usage.Session) bool { return lazy && s.State == schemas.Suspended })
			for s := range f.Sessions {
				got[s.UID] = got[s.UID].Plus(s.In(0))
			}
			edge = edge.Add(time.Hour)
			f.Shift(edge, func(*usage.Session) bool { return false })
		}
		first := map[schemas.UID]time.Time{}
		for _, v := range log {
			if _, ok := first[v.UID]; !ok {
				first[v.UID] = v.Stored
			}
			for !v.Stored.Before(edge.Add(2 * time.Minute)) {
				take()
			}
			f.Add(v)
		}
		f.Advance(until, all)
		for s := range f.Sessions {
			got[s.UID] = got[s.UID].Plus(s.In(0)).Plus(s.In(1))
		}
		for uid, a := range sums(log, until) {
			if wrong { // a transition that claims to be of a period that is over counts from its end
				if limit := until.Sub(first[uid]) + time.Hour; counted(got[uid]) > limit || got[uid].Running < 0 {
					t.Fatalf("session %s: in periods %+v of %s", uid, got[uid], limit)
				}
				continue
			}
			if !same(got[uid], a[0]) {
				t.Fatalf("session %s: in periods %+v, whole %+v", uid, got[uid], a[0])
			}
		}
	})
}
