package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// do asks a server for a verb about a session.
func (y *yard) do(s *Server, verb, name string) (schemas.View, error) {
	y.Helper()
	out, err := s.Call(y.ctx, operator, verb, schemas.Request{Name: name})
	if err != nil {
		return schemas.View{}, err
	}
	return out.(schemas.View), nil
}

// listed gives the names of a list.
func (y *yard) listed(s *Server, of schemas.ListArchived) (names []string) {
	y.Helper()
	out, err := s.Call(y.ctx, operator, "list", schemas.Request{List: &schemas.ListRequest{Archived: of}})
	y.must(err)
	for _, v := range out.([]schemas.View) {
		names = append(names, v.Name)
	}
	return names
}

// A terminal is archived, asleep or not; nothing but a resume takes it out.
func TestArchive(t *testing.T) {
	y := newYard(t)
	y.host("h", 0)
	s, _ := y.api("h")
	y.mustRun(s, "work", schemas.Running)
	y.mustRun(s, "other", schemas.Running)
	y.mustRun(s, "plain", schemas.Running, func(r *schemas.RunRequest) { r.TTY, r.Spec = false, []byte(`{"command":["bash"]}`) })
	first, err := y.do(s, "archive", "work")
	if err != nil || first.State != schemas.Suspended || first.Status != schemas.StatusArchived || first.Archived.For != schemas.ArchivedByHand || first.Snapshot == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := y.do(s, "archive", "work"); err != nil || again.Version != first.Version {
		t.Errorf("again: %+v, %v", again, err)
	}
	y.waitFor("the list to be without it", func() bool { return slices.Equal(y.listed(s, schemas.ArchivedNone), []string{"other", "plain"}) })
	if all, only := y.listed(s, ""), y.listed(s, schemas.ArchivedOnly); len(all) != 3 || !slices.Equal(only, []string{"work"}) {
		t.Errorf("of all %v, of the archive %v", all, only)
	}
	if c := s.Census(); c.Archived != 1 || c.States[schemas.Suspended] != 1 {
		t.Errorf("%+v", c)
	}
	for _, verb := range []string{"ensure", "move"} {
		var refused *schemas.APIError
		if _, err := y.do(s, verb, "work"); !errors.As(err, &refused) || refused.Reason != schemas.ReasonArchived || !strings.Contains(refused.Hint, "diapause resume work") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for name, reason := range map[string]schemas.Reason{"plain": schemas.ReasonWrongState, "missing": ""} {
		var refused *schemas.APIError
		if _, err := y.do(s, "archive", name); !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("archive %s: %v", name, err)
		}
	}
	back, err := y.do(s, "resume", "work")
	if err != nil || back.State != schemas.Running || back.Archived != nil || back.Status != "" || back.UID != first.UID {
		t.Errorf("resumed: %+v, %v", back, err)
	}
	y.waitFor("the list to have it", func() bool { return len(y.listed(s, schemas.ArchivedNone)) == 3 })
	out, err := s.Call(y.ctx, operator, "audit", schemas.Request{})
	if audit, ok := out.(Audit); err != nil || !ok || len(audit.Problems) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// What was archived since it was looked at isn't resumed by use.
func TestArchivedMeanwhile(t *testing.T) {
	y := newYard(t)
	y.host("h", 0)
	s, _ := y.api("h")
	y.mustRun(s, "work", schemas.Running)
	_, err := y.do(s, "suspend", "work")
	y.must(err)
	a := s.archives
	before, err := a.sessions.get(y.ctx, schemas.Name{Tenant: "default", Session: "work"})
	y.must(err)
	_, err = y.do(s, "archive", "work")
	y.must(err)
	use := &resumer{sessions: a.sessions, hosts: a.captures.hosts, quotas: a.quotas, board: a.board}
	var refused *schemas.APIError
	if _, err := use.brought(y.ctx, before, request{by: operator}); !errors.As(err, &refused) || refused.Reason != schemas.ReasonArchived {
		t.Errorf("it is answered with %v", err)
	}
	if v, err := a.sessions.get(y.ctx, before.Name()); err != nil || v.Archived == nil {
		t.Errorf("it is %s, archived %+v, %v", v.State, v.Archived, err)
	}
}

// A tenant that has as many as it may have outside the archive gets another one, and the longest asleep is archived for it.
// What runs, and what has no terminal, stays.
func TestTheOldestMakeRoom(t *testing.T) {
	y := newYard(t)
	y.host("h", 0)
	store, err := policykv.Open(y.ctx, y.js, stream.NamesWith(""))
	y.must(err)
	_, err = store.SetDefaults(y.ctx, "up@h", []schemas.PolicyDefault{{Scope: schemas.ScopeAll, Policy: schemas.Policy{Quota: &schemas.Quota{Total: new(3)}}, From: "preset terminals"}})
	y.must(err)
	policies := policykv.NewCache(store, silence)
	y.must(policies.Load(y.ctx))
	s, _ := y.api("h", func(o *Options) { o.Policies = policies })
	y.mustRun(s, "plain", schemas.Running, func(r *schemas.RunRequest) { r.TTY, r.Spec = false, []byte(`{"command":["bash"]}`) })
	for _, name := range []string{"plain", "a", "b"} {
		if name != "plain" {
			y.mustRun(s, name, schemas.Running)
		}
		v, err := y.do(s, "suspend", name)
		y.must(err)
		y.becomes(s, v.Name, "asleep", func(v schemas.View) bool { return v.State == schemas.Suspended })
	}
	if got := y.listed(s, schemas.ArchivedOnly); len(got) != 0 {
		t.Errorf("%v are archived for nothing", got)
	}
	for i, want := range [][]string{{"a"}, {"a", "b"}, {"a", "b"}} {
		name := fmt.Sprint("next", i)
		y.mustRun(s, name, schemas.Running)
		y.waitFor(fmt.Sprintf("%v to be archived for %s", want, name), func() bool { return slices.Equal(y.listed(s, schemas.ArchivedOnly), want) })
	}
	v := y.becomes(s, "a", "archived", func(v schemas.View) bool { return v.Archived != nil })
	if v.Archived.For != schemas.ArchivedForRoom || v.LastTransition.Actor != "archive@h" || !strings.Contains(v.LastTransition.Reason, "3 at most") {
		t.Errorf("%+v, %+v", v.Archived, v.LastTransition)
	}
	if _, err := y.do(s, "resume", "b"); err != nil { // there is no room, which refuses nothing
		t.Error(err)
	}
}
