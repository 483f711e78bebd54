package api

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// noIdle knows no idle times.
type noIdle struct{ Explainer }

func (noIdle) Idle(context.Context) (map[schemas.Name]time.Duration, error) { return nil, nil }

// noneGone is a fleet whose hosts are all there.
type noneGone struct{ Fleet }

func (noneGone) Gone(schemas.HostID) (time.Time, bool) { return time.Time{}, false }

func TestListIsFilteredAndPaged(t *testing.T) {
	b := newBoard()
	for i, s := range []struct {
		tenant, id string
		state      schemas.State
		class      string
		archived   *schemas.Archived
	}{
		{"acme", "b", schemas.Suspended, "web", nil}, {"acme", "a", schemas.Suspended, "web", nil}, {"acme", "c", schemas.Exited, "terminal", &schemas.Archived{For: schemas.ArchivedForAge}},
		{"default", "z", schemas.Suspended, "web", nil}, {"default", "gone", schemas.Deleted, "web", nil},
	} {
		b.put(statekv.Versioned{SessionRecord: schemas.SessionRecord{
			Tenant: schemas.Tenant(s.tenant), Session: schemas.SessionID(s.id), UID: schemas.UID(s.id), Version: uint64(i + 1), State: s.state, Class: s.class, Host: "h",
			Labels: map[string]string{"name": s.id}, Archived: s.archived,
		}})
	}
	look := &views{board: b, scheduler: noIdle{}, fleet: noneGone{}}
	for _, c := range []struct {
		name string
		req  schemas.Request
		want []string
	}{
		{"all", schemas.Request{}, []string{"acme/a", "acme/b", "acme/c", "z"}},
		{"of a tenant", schemas.Request{Tenant: "acme"}, []string{"acme/a", "acme/b", "acme/c"}},
		{"one", schemas.Request{Name: "default/z"}, []string{"z"}},
		{"in a state", schemas.Request{List: &schemas.ListRequest{States: []schemas.State{schemas.Exited, schemas.Failed}}}, []string{"acme/c"}},
		{"of a class", schemas.Request{List: &schemas.ListRequest{Class: "web"}}, []string{"acme/a", "acme/b", "z"}},
		{"with a label", schemas.Request{List: &schemas.ListRequest{Labels: []string{"name=a"}}}, []string{"acme/a"}},
		{"with two", schemas.Request{List: &schemas.ListRequest{Labels: []string{"name=a", "team"}}}, nil},
		{"of another host", schemas.Request{List: &schemas.ListRequest{Host: "g"}}, nil},
		{"the first page", schemas.Request{List: &schemas.ListRequest{Limit: 2}}, []string{"acme/a", "acme/b"}},
		{"the second", schemas.Request{List: &schemas.ListRequest{Limit: 2, After: "acme/b"}}, []string{"acme/c", "z"}},
		{"without the archive", schemas.Request{List: &schemas.ListRequest{Archived: schemas.ArchivedNone}}, []string{"acme/a", "acme/b", "z"}},
		{"the archive", schemas.Request{List: &schemas.ListRequest{Archived: schemas.ArchivedOnly}}, []string{"acme/c"}},
		{"after one that is gone", schemas.Request{List: &schemas.ListRequest{After: "acme/bb"}}, []string{"acme/c", "z"}},
		{"after the last", schemas.Request{List: &schemas.ListRequest{After: "z"}}, nil},
	} {
		out, err := look.list(t.Context(), request{Request: c.req})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, v := range out.([]schemas.View) {
			got = append(got, v.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, bad := range []schemas.Request{{Name: "a b"}, {List: &schemas.ListRequest{Limit: -1}}, {List: &schemas.ListRequest{After: "a b"}}, {List: &schemas.ListRequest{Archived: "all"}}} {
		if _, err := look.list(t.Context(), request{Request: bad}); schemas.CodeOf(err) != schemas.CodeUsage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A page of a long list takes no more for those that it doesn't have.
func BenchmarkListPage(b *testing.B) {
	all := newBoard()
	for i := range 10_000 {
		id := fmt.Sprintf("s%05d", i)
		all.put(statekv.Versioned{SessionRecord: schemas.SessionRecord{
			Tenant: schemas.DefaultTenant, Session: schemas.SessionID(id), UID: schemas.UID(id), Version: 1, State: schemas.Suspended, Class: "web", Host: "h", Program: "node",
		}})
	}
	look := &views{board: all, scheduler: noIdle{}, fleet: noneGone{}}
	for b.Loop() {
		if _, err := look.list(b.Context(), request{Request: schemas.Request{List: &schemas.ListRequest{Limit: 400, After: "s05000"}}}); err != nil {
			b.Fatal(err)
		}
	}
}
