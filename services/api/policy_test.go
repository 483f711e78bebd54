package api

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// desk is a server of the verbs of policies, and nothing else.
func desk(t *testing.T) *Server {
	t.Helper()
	js, names := natstest.Streams(t), stream.NamesWith("")
	records, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	store, err := policykv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{NC: js.Conn(), JS: js, Names: names, Records: records, Policies: policykv.NewCache(store, nil)})
}

func change(t *testing.T, s *Server, n schemas.Name, tr schemas.Transition) {
	t.Helper()
	v, err := s.records.Update(t.Context(), n, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return tr, true, nil })
	if err != nil {
		t.Fatal(err)
	}
	s.board.put(v)
}

func set(t *testing.T, s *Server, scope, text string) (schemas.PolicyView, error) {
	t.Helper()
	var p schemas.Policy
	if err := p.Assign(text); err != nil {
		t.Fatal(err)
	}
	out, err := s.policies.policySet(t.Context(), request{schemas.Request{Policy: &schemas.PolicyRequest{Scope: scope, Policy: &p}}, Caller{Identity: "me"}})
	if err := s.policies.policies.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, _ := out.(schemas.PolicyView)
	return v, err
}

// What is answered is what was written, also before the cache hears of it.
func TestPolicySetShowsWhatItWrote(t *testing.T) {
	s := desk(t)
	if err := s.policies.policies.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(text string, absent bool) (schemas.PolicyView, error) {
		var p schemas.Policy
		if err := p.Assign(text); err != nil {
			t.Fatal(err)
		}
		out, err := s.policies.policySet(t.Context(), request{schemas.Request{Policy: &schemas.PolicyRequest{Scope: "class:web", Policy: &p, Absent: absent}}, Caller{Identity: "me"}})
		v, _ := out.(schemas.PolicyView)
		return v, err
	}
	for i, text := range []string{"grace=2m", "grace=3m"} {
		v, err := put(text, i == 0)
		if err != nil || v.Effective.Grace == nil || time.Duration(*v.Effective.Grace) != time.Duration(i+2)*time.Minute || v.Origins["grace"] != "class:web" {
			t.Errorf("%s: effective %+v, by %v, %v", text, v.Effective.Grace, v.Origins, err)
		}
	}
	if _, err := put("grace=4m", true); schemas.ReasonOf(err) != schemas.ReasonConflict {
		t.Errorf("one that there is: %v", err)
	}
}

// The policy of a session goes with it, by and by, and no other does.
func TestPoliciesOfSessionsThatAreGone(t *testing.T) {
	s := desk(t)
	for _, id := range []schemas.SessionID{"stays", "goes"} {
		n := schemas.Name{Tenant: "default", Session: id}
		change(t, s, n, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
			New: &schemas.NewSession{UID: schemas.UID("u-" + id), Tenant: n.Tenant, Session: id, Class: "web", Lineage: "l"}}})
		if v, err := set(t, s, string(id), "grace=2m"); err != nil || v.Version != 1 || v.Change.By != "me" {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := set(t, s, "all", "warn=1s"); err != nil {
		t.Fatal(err)
	}
	change(t, s, schemas.Name{Tenant: "default", Session: "goes"}, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRemove}}})
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan struct{})
	go func() { s.policies.sweepPolicies(ctx, ticks); close(done) }()
	ticks <- time.Now()
	ticks <- time.Now() // the first sweep is over
	cancel()
	<-done
	if err := s.policies.policies.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := s.policies.policyGet(t.Context(), request{})
	if err != nil {
		t.Fatal(err)
	}
	var scopes []schemas.PolicyScope
	for _, v := range out.([]schemas.PolicyView) {
		if v.Version > 0 {
			scopes = append(scopes, v.Scope)
		}
	}
	got, err := json.Marshal(scopes)
	if err != nil || string(got) != `["all","session:stays"]` {
		t.Errorf("policies of %s are left, %v", got, err)
	}
	if n := len(s.policies.policies.Documents(true)); n != 2 {
		t.Errorf("%d are remembered", n)
	}
}

// What a default says is shown with what it is from, in every scope below which it lies.
func TestPolicyGetNamesDefaults(t *testing.T) {
	s := desk(t)
	var life, grace schemas.Policy
	if err := errors.Join(life.Assign("life=1h"), life.Assign("slots=3"), grace.Assign("grace=7m")); err != nil {
		t.Fatal(err)
	}
	_, err := s.policies.policies.SetDefaults(t.Context(), "up@h", []schemas.PolicyDefault{
		{Scope: schemas.ScopeAll, Policy: life, From: "variable LIFE"}, {Scope: schemas.ClassScope("web"), Policy: grace, From: "preset x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set(t, s, "class:slack", "life=2h"); err != nil { // which loads them, too
		t.Fatal(err)
	}
	for _, c := range []struct{ scope, key, from string }{
		{"class:web", "grace", "preset x"}, {"class:web", "life", "variable LIFE"}, {"class:web", "slots", ""}, {"class:web", "breaker", "built in"},
		{"class:slack", "life", "class:slack"}, {"class:slack", "grace", "built in"}, {"all", "slots", "variable LIFE"}, {"all", "grace", ""},
		{"tenant:acme", "life", ""}, {"tenant:acme", "slots", ""},
	} {
		out, err := s.policies.policyGet(t.Context(), request{Request: schemas.Request{Policy: &schemas.PolicyRequest{Scope: c.scope}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := out.([]schemas.PolicyView)[0]; v.Origins[c.key] != c.from || v.Effective.Says(c.key) != (c.from != "") {
			t.Errorf("%s of %s is from %q, want %q; in effect: %q", c.key, c.scope, v.Origins[c.key], c.from, v.Effective.Lines())
		}
	}
	out, err := s.policies.policyGet(t.Context(), request{})
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, v := range out.([]schemas.PolicyView) {
		if v.Scope == schemas.ScopeDefaults {
			listed += len(v.Defaults)
		}
	}
	if listed != 2 {
		t.Errorf("%d defaults are listed", listed)
	}
}
