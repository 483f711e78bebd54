package policykv_test

import (
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/schemas"
)

// byDefault makes a default as `up` does.
func byDefault(t *testing.T, scope schemas.PolicyScope, from string, texts ...string) schemas.PolicyDefault {
	t.Helper()
	return schemas.PolicyDefault{Scope: scope, Policy: policy(t, texts...), From: from}
}

func setDefaults(t *testing.T, s *policykv.Store, by string, all ...schemas.PolicyDefault) policykv.Versioned {
	t.Helper()
	v, err := s.SetDefaults(t.Context(), by, all)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Who has defaults sets them, also if another has set the same; who has none takes back its own; and what it has set
// isn't written again.
func TestSetDefaults(t *testing.T) {
	s, _ := open(t)
	web := byDefault(t, schemas.ClassScope("web"), "variable A", "grace=1m")
	for i, c := range []struct {
		by      string
		all     []schemas.PolicyDefault
		version uint64
		from    int // how many there are then
	}{
		{"up@a", nil, 0, 0},
		{"up@a", []schemas.PolicyDefault{web}, 1, 1},
		{"up@a", []schemas.PolicyDefault{web}, 1, 1},
		{"up@b", []schemas.PolicyDefault{web}, 2, 1},
		{"up@a", nil, 2, 1}, // they are b's
		{"up@b", []schemas.PolicyDefault{web, byDefault(t, schemas.ScopeAll, "variable B", "life=1h")}, 3, 2},
		{"up@a", nil, 3, 2},
		{"up@b", nil, 4, 0},
		{"up@b", nil, 4, 0},
	} {
		if v := setDefaults(t, s, c.by, c.all...); v.Version != c.version || len(v.Defaults) != c.from {
			t.Errorf("%d: version %d with %d defaults, by %s", i, v.Version, len(v.Defaults), v.Change.By)
		}
	}
	if _, err := s.SetDefaults(t.Context(), "up@a", []schemas.PolicyDefault{byDefault(t, schemas.ClassScope("web"), "x", "grace=1ms")}); err == nil {
		t.Error("a grace of 1 ms is taken")
	}
}

// They lie below every policy and above what is built in, and it is told which of them hold.
func TestDefaultsAreTheLowestLayer(t *testing.T) {
	s, _ := open(t)
	work := schemas.Name{Tenant: "default", Session: "work"}
	setDefaults(t, s, "up@a",
		byDefault(t, schemas.ScopeAll, "variable LIFE", "life=1h"), byDefault(t, schemas.ScopeAll, "preset x", "slots=10"),
		byDefault(t, schemas.ClassScope("web"), "variable GRACE", "grace=7m"))
	c := policykv.NewCache(s, nil)
	load := func() {
		t.Helper()
		if err := c.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	decisive := func(r schemas.SessionRecord) (out []string) {
		for _, d := range c.Decisive(r) {
			out = append(out, d.Key+" "+d.From)
		}
		return out
	}
	load()
	r, ruled := record("web", "u1", nil), record("web", "u1", &schemas.Idle{Grace: 1000})
	if p := c.For(r); p.Grace != 7*time.Minute || p.Life != time.Hour {
		t.Errorf("grace %v, life %v", p.Grace, p.Life)
	}
	if p := c.For(record("slack", "u1", nil)); p.Grace != 30*time.Second || p.Life != time.Hour {
		t.Errorf("of another class: grace %v, life %v", p.Grace, p.Life)
	}
	if e := c.Effective(schemas.ClassScope("web"), schemas.SessionRecord{}); time.Duration(*e.Grace) != 7*time.Minute || e.Slots != nil || *e.Breaker != 3 {
		t.Errorf("in effect: %q", e.Lines())
	}
	if e := c.Effective(schemas.ScopeAll, schemas.SessionRecord{}); *e.Slots != 10 || e.Grace != nil {
		t.Errorf("in effect for all: %q", e.Lines())
	}
	if got := decisive(r); !slices.Equal(got, []string{"grace variable GRACE", "life variable LIFE"}) {
		t.Errorf("%q hold", got)
	}
	if got := decisive(ruled); !slices.Equal(got, []string{"life variable LIFE"}) {
		t.Errorf("%q hold for one with a rule", got)
	}
	if q := c.Quota("acme"); q.Total != nil {
		t.Errorf("a quota from nowhere: %+v", q)
	}
	if n, by := c.Slots(0); n != 10 || by != "preset x" {
		t.Errorf("%d slots by %q", n, by)
	}
	if n, by := c.Slots(4); n != 4 || by != "" {
		t.Errorf("%d slots by %q, of a host with 4", n, by)
	}
	if p := c.Trial(schemas.ClassScope("web"), policy(t, "awake=1m"))(r); p.Grace != 7*time.Minute || p.Awake != time.Minute {
		t.Errorf("on trial: %+v", p)
	}

	set(t, s, schemas.ScopeAll, "", "grace=8m", "slots=5")
	set(t, s, schemas.SessionScope(work), "u1", "life=2h")
	load()
	if p := c.For(r); p.Grace != 8*time.Minute || p.Life != 2*time.Hour {
		t.Errorf("below policies: grace %v, life %v", p.Grace, p.Life)
	}
	if got := decisive(r); len(got) != 0 {
		t.Errorf("%q hold below policies", got)
	}
	if n, by := c.Slots(4); n != 5 || by != "policy of all" {
		t.Errorf("%d slots by %q", n, by)
	}
	if v := c.Defaults(); v.Version != 1 || v.Change.By != "up@a" {
		t.Errorf("%+v", v)
	}

	setDefaults(t, s, "up@a")
	set(t, s, schemas.ScopeAll, "")
	load()
	if p := c.For(r); p.Grace != 5*time.Minute || p.Life != 2*time.Hour {
		t.Errorf("without any: grace %v, life %v", p.Grace, p.Life)
	}
}
