package policykv_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

func open(t *testing.T) (*policykv.Store, jetstream.JetStream) {
	t.Helper()
	js := natstest.Streams(t)
	store, err := policykv.Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return store, js
}

func policy(t *testing.T, texts ...string) (p schemas.Policy) {
	t.Helper()
	for _, text := range texts {
		if err := p.Assign(text); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func set(t *testing.T, s *policykv.Store, scope schemas.PolicyScope, uid schemas.UID, texts ...string) policykv.Versioned {
	t.Helper()
	prev, err := s.Get(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Set(t.Context(), prev, schemas.PolicyDocument{Scope: scope, UID: uid, Policy: policy(t, texts...), Change: schemas.PolicyChange{By: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Of two who change the same version one is refused; what isn't valid is, too.
func TestSet(t *testing.T) {
	s, _ := open(t)
	first := set(t, s, schemas.ScopeAll, "", "grace=1m")
	if first.Version != 1 || first.Change.At.IsZero() || first.Change.ID == "" {
		t.Errorf("%+v", first)
	}
	set(t, s, schemas.ScopeAll, "", "grace=2m")
	if _, err := s.Set(t.Context(), first, schemas.PolicyDocument{Scope: schemas.ScopeAll}); !errors.Is(err, policykv.ErrVersion) {
		t.Errorf("an older version is replaced: %v", err)
	}
	if _, err := s.Set(t.Context(), policykv.Versioned{}, schemas.PolicyDocument{Scope: schemas.ClassScope("web"), Policy: policy(t, "grace=1ms")}); err == nil {
		t.Error("a grace of 1 ms is taken")
	}
	v, err := s.Get(t.Context(), schemas.ScopeAll)
	if err != nil || v.Version != 2 || time.Duration(*v.Policy.Grace) != 2*time.Minute {
		t.Errorf("%+v, %v", v, err)
	}
}

// A policy that is dropped holds no more, and one that was set meanwhile stays.
func TestDrop(t *testing.T) {
	s, _ := open(t)
	scope := schemas.SessionScope(schemas.Name{Tenant: "default", Session: "work"})
	set(t, s, scope, "u1", "grace=1m")
	old := set(t, s, scope, "u1", "grace=2m")
	now := set(t, s, scope, "u2", "grace=3m")
	c := policykv.NewCache(s, nil)
	if err := errors.Join(s.Drop(t.Context(), old, "test", "late"), c.Load(t.Context())); err != nil {
		t.Fatal(err)
	}
	if p := c.For(record("web", "u2", nil)); p.Grace != 3*time.Minute {
		t.Errorf("another one was dropped: %+v", p)
	}
	if err := errors.Join(s.Drop(t.Context(), now, "test", "gone"), c.Load(t.Context())); err != nil {
		t.Fatal(err)
	}
	if p := c.For(record("web", "u2", nil)); p.Grace != 5*time.Minute || len(c.Documents(true)) != 0 {
		t.Errorf("it still holds: %+v", p)
	}
	if v := set(t, s, scope, "u3", "grace=4m"); v.Version != 5 {
		t.Errorf("version %d follows", v.Version)
	}
}

func record(class string, uid schemas.UID, idle *schemas.Idle) schemas.SessionRecord {
	return schemas.SessionRecord{UID: uid, Tenant: "default", Session: "work", Class: class, Idle: idle}
}

// The layers lie on each other as they should, and a later session of the same name is
// held to nothing that an earlier one was.
func TestLayers(t *testing.T) {
	s, _ := open(t)
	work := schemas.Name{Tenant: "default", Session: "work"}
	set(t, s, schemas.ScopeAll, "", "warn=5s", "grace=7m", "watermarks=sessions:0.5")
	set(t, s, schemas.ClassScope("web"), "", "grace=8m", "awake=1m")
	set(t, s, schemas.SessionScope(work), "u1", "awake=2m")
	c := policykv.NewCache(s, nil)
	if p := c.For(record("web", "u1", nil)); p.Grace != 5*time.Minute {
		t.Errorf("before it was loaded: %+v", p)
	}
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		r           schemas.SessionRecord
		grace, warn time.Duration
		awake       time.Duration
	}{
		"own":         {record("web", "u1", nil), 8 * time.Minute, 5 * time.Second, 2 * time.Minute},
		"later":       {record("web", "u2", nil), 8 * time.Minute, 5 * time.Second, time.Minute},
		"other class": {record("slack", "u2", nil), 7 * time.Minute, 5 * time.Second, 0},
		"own rule":    {record("web", "u1", &schemas.Idle{Grace: 1000}), time.Second, 5 * time.Second, 2 * time.Minute},
		"unknown":     {record("later", "u2", nil), 7 * time.Minute, 5 * time.Second, 0},
	} {
		p := c.For(want.r)
		if p.Grace != want.grace || p.Warn != want.warn || p.Awake != want.awake {
			t.Errorf("%s: grace %v, warn %v, awake %v", name, p.Grace, p.Warn, p.Awake)
		}
	}
	if w := c.Watermarks(); w.Sessions == nil || *w.Sessions != 0.5 {
		t.Errorf("watermarks %+v", w)
	}
	if n := len(c.Versions(record("web", "u1", nil))); n != 3 {
		t.Errorf("it is held to %d documents", n)
	}
	if e := c.Effective(schemas.SessionScope(work), record("web", "u1", nil)); time.Duration(*e.Awake) != 2*time.Minute || time.Duration(*e.Grace) != 8*time.Minute || *e.Breaker != 3 {
		t.Errorf("in effect: %q", e.Lines())
	}
	trial := c.Trial(schemas.ClassScope("web"), policy(t, "grace=9m"))
	if p := trial(record("web", "u1", nil)); p.Grace != 9*time.Minute || p.Awake != 2*time.Minute || p.Warn != 5*time.Second {
		t.Errorf("on trial: %+v", p)
	}
	if p := c.For(record("web", "u1", nil)); p.Grace != 8*time.Minute {
		t.Errorf("a trial changed what holds: %+v", p)
	}
}

// A change is heard of, what isn't a policy is passed over, and the one before holds.
func TestChangesAreFollowed(t *testing.T) {
	s, js := open(t)
	c := policykv.NewCache(s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	wait := func() {
		t.Helper()
		select {
		case <-c.Changed():
		case <-time.After(limit):
			t.Fatal("nothing is heard of a change")
		}
	}
	set(t, s, schemas.ClassScope("web"), "", "grace=8m")
	wait()
	for _, data := range []string{"{", `{"scope":"class:web","policy":{"grace":"1ns"}}`, `{"scope":"session:","policy":{}}`} {
		if _, err := js.Publish(t.Context(), "$KV.DIAPAUSE_policies.class.web", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	set(t, s, schemas.ClassScope("slack"), "", "grace=9m")
	for c.Class("slack").Grace != 9*time.Minute {
		wait()
	}
	if p := c.Class("web"); p.Grace != 8*time.Minute {
		t.Errorf("%+v", p)
	}
}
