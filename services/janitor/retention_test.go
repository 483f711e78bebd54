package janitor

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
)

// now is the time of all decisions here.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func snapshot(session string, age time.Duration, bytes int64, needed bool) Snapshot {
	return Snapshot{
		Session: schemas.Name{Tenant: "default", Session: schemas.SessionID(session)}, Class: "web", At: now.Add(-age), Bytes: bytes, Needed: needed,
		Head: schemas.Head{Name: fmt.Sprintf("default/%s/snaps/1-%d", session, age)},
	}
}

func gone(all []Deletion) (out []string) {
	for _, d := range all {
		out = append(out, fmt.Sprintf("%s %s: %s", d.Session.Session, now.Sub(d.At), d.Reason))
	}
	return out
}

func TestPlan(t *testing.T) {
	desktop := snapshot("d", 30*time.Hour, 1, false)
	desktop.Class = "desktop"
	for name, c := range map[string]struct {
		policy Policy
		all    []Snapshot
		want   []string
	}{
		"nothing": {Default(), []Snapshot{snapshot("a", time.Hour, 1, false)}, nil},
		"age":     {Policy{Age: 2 * time.Hour}, []Snapshot{snapshot("a", time.Hour, 1, false), snapshot("a", 3*time.Hour, 1, false)}, []string{"a 3h0m0s: older than 2h0m0s"}},
		"needed":  {Policy{Age: time.Hour, Count: 1, Overall: 1, Bytes: 1}, []Snapshot{snapshot("a", 9*time.Hour, 5, true), snapshot("b", 8*time.Hour, 5, true)}, nil},
		"class":   {Default(), []Snapshot{desktop, snapshot("a", 30*time.Hour, 1, false)}, []string{"d 30h0m0s: older than 24h0m0s"}},
		"count": {Policy{Count: 2}, []Snapshot{
			snapshot("a", 1*time.Hour, 1, false), snapshot("a", 2*time.Hour, 1, false), snapshot("a", 3*time.Hour, 1, false), snapshot("b", 9*time.Hour, 1, false),
		}, []string{"a 3h0m0s: more than 2 of the session"}},
		"count around what is needed": {Policy{Count: 1}, []Snapshot{
			snapshot("a", 1*time.Hour, 1, false), snapshot("a", 2*time.Hour, 1, false), snapshot("a", 3*time.Hour, 1, true),
		}, []string{"a 2h0m0s: more than 1 of the session", "a 1h0m0s: more than 1 of the session"}},
		"overall": {Policy{Overall: 2}, []Snapshot{
			snapshot("a", 1*time.Hour, 1, false), snapshot("b", 3*time.Hour, 1, false), snapshot("c", 2*time.Hour, 1, false),
		}, []string{"b 3h0m0s: more than 2 in all"}},
		"bytes, the oldest first":  {Policy{Bytes: 10}, []Snapshot{snapshot("a", 1*time.Hour, 9, false), snapshot("b", 3*time.Hour, 2, false)}, []string{"b 3h0m0s: more than 10 bytes in all"}},
		"bytes, the largest first": {Policy{Bytes: 10, Largest: true}, []Snapshot{snapshot("a", 1*time.Hour, 9, false), snapshot("b", 3*time.Hour, 2, false)}, []string{"a 1h0m0s: more than 10 bytes in all"}},
		"age first, then count": {Policy{Age: 5 * time.Hour, Count: 2}, []Snapshot{
			snapshot("a", 1*time.Hour, 1, false), snapshot("a", 2*time.Hour, 1, false), snapshot("a", 6*time.Hour, 1, false),
		}, []string{"a 6h0m0s: older than 5h0m0s"}},
	} {
		if got := gone(Plan(c.all, c.policy, now)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: deleted %q, want %q", name, got, c.want)
		}
	}
}

// For any snapshots: what is needed stays, limits hold for the rest, nothing goes
// twice, and what is kept is never older than what of the same session went for its
// count.
func TestPlanHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []Snapshot
		for i := range rapid.IntRange(0, 30).Draw(rt, "snapshots") {
			s := snapshot(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "session"), time.Duration(rapid.IntRange(0, 100).Draw(rt, "age"))*time.Hour,
				int64(rapid.IntRange(0, 50).Draw(rt, "bytes")), rapid.IntRange(0, 4).Draw(rt, "needed") == 0)
			s.Head.Name += fmt.Sprint("-", i)
			all = append(all, s)
		}
		p := Policy{
			Age: time.Duration(rapid.IntRange(0, 100).Draw(rt, "policy age")) * time.Hour, Count: rapid.IntRange(0, 5).Draw(rt, "count"),
			Overall: rapid.IntRange(0, 10).Draw(rt, "overall"), Bytes: int64(rapid.IntRange(0, 200).Draw(rt, "limit")), Largest: rapid.Bool().Draw(rt, "largest"),
		}
		went := map[schemas.Head]bool{}
		for _, d := range Plan(all, p, now) {
			if d.Needed || went[d.Head] || d.Reason == "" {
				rt.Fatalf("deletes %+v", d)
			}
			went[d.Head] = true
		}
		left, free, of, freeOf, bytes := 0, 0, map[schemas.Name]int{}, map[schemas.Name]int{}, int64(0)
		for _, s := range all {
			if went[s.Head] {
				continue
			}
			left++
			of[s.Session]++
			bytes += s.Bytes
			if !s.Needed {
				free++
				freeOf[s.Session]++
				if p.Age > 0 && now.Sub(s.At) > p.Age {
					rt.Fatalf("%+v is too old and stays", s)
				}
			}
		}
		for n, count := range of {
			if p.Count > 0 && count > p.Count && freeOf[n] > 0 {
				rt.Fatalf("session %s keeps %d", n, count)
			}
		}
		if p.Overall > 0 && left > p.Overall && free > 0 || p.Bytes > 0 && bytes > p.Bytes && free > 0 {
			rt.Fatalf("%d of %d bytes stay, %d of them needn't", left, bytes, free)
		}
	})
}

func TestParsePolicy(t *testing.T) {
	if p, err := ParsePolicy(""); err != nil || !reflect.DeepEqual(p, Default()) {
		t.Errorf("nothing: %+v, %v", p, err)
	}
	p, err := ParsePolicy("age=36h,age.desktop=0, age.web=1d,count=3,overall=0,bytes=500M,first=largest,expire=90d,log=60d,log.count=3,log.removed=1d")
	want := Policy{
		Age: 36 * time.Hour, ClassAge: map[string]time.Duration{"desktop": 0, "web": day}, Count: 3, Bytes: 500 << 20, Largest: true, Expire: 90 * day,
		Log: archive.Policy{Age: 60 * day, Count: 3, Removed: day},
	}
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	for _, bad := range []string{"age", "age=-1h", "age=x", "age.=1h", "count=-1", "bytes=1X", "bytes=9999999999G", "first=newest", "expire=soon", "log=x", "log.count=0", "log.removed=-1d", "keep=3"} {
		if _, err := ParsePolicy(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: error %v", bad, err)
		}
	}
	if reflect.DeepEqual(Default().ClassAge, want.ClassAge) {
		t.Error("reading a policy has changed the default")
	}
}

func TestSubset(t *testing.T) {
	of := map[int]int{}
	for n := 1; n <= 3; n++ {
		in, err := Subset(fmt.Sprintf("%d/3", n))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			if in(fmt.Sprint("pack ", i)) {
				of[i]++
			}
		}
	}
	for i := range 300 {
		if of[i] != 1 {
			t.Fatalf("pack %d is in %d of the three parts", i, of[i])
		}
	}
	for _, bad := range []string{"", "1", "0/3", "4/3", "1/0", "a/b", "-1/3"} {
		if _, err := Subset(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// What a session's own policy says goes before what holds for all.
func TestPlanByOwnPolicy(t *testing.T) {
	keeping := func(s Snapshot, age time.Duration, count int) Snapshot {
		d := schemas.Duration(age)
		s.Keep = schemas.Keep{Age: &d, Count: &count}
		return s
	}
	all := []Snapshot{
		keeping(snapshot("a", 90*time.Hour, 1, false), 0, 0), keeping(snapshot("a", 80*time.Hour, 1, false), 0, 0),
		keeping(snapshot("b", 3*time.Hour, 1, false), 2*time.Hour, 1), keeping(snapshot("b", 90*time.Minute, 1, false), 2*time.Hour, 1), keeping(snapshot("b", time.Hour, 1, false), 2*time.Hour, 1),
		snapshot("c", 50*time.Hour, 1, false),
	}
	want := []string{"c 50h0m0s: older than 48h0m0s", "b 3h0m0s: older than 2h0m0s", "b 1h30m0s: more than 1 of the session"}
	if got := gone(Plan(all, Policy{Age: 48 * time.Hour, Count: 1}, now)); !reflect.DeepEqual(got, want) {
		t.Errorf("deleted %q, want %q", got, want)
	}
}
