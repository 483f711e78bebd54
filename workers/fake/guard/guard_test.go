package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/fake/guard"
)

func allow(context.Context) error { return nil }

// Each promise that is broken is noted, and what is right isn't.
func TestComplaints(t *testing.T) {
	fence := driver.Fence{UID: "u", Name: schemas.Name{Tenant: "default", Session: "work"}, Epoch: 1}
	head := schemas.Head{Name: "default/u/snaps/1-1"}
	rec := schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work"}
	kept, known := 0, error(nil)
	for name, c := range map[string]struct {
		state schemas.State
		head  *schemas.Head
		do    func(*guard.Guard) error
		want  string
	}{
		"killed while it runs":       {schemas.Running, &head, func(g *guard.Guard) error { return g.Stop(t.Context(), fence) }, "its record says running"},
		"killed without an image":    {schemas.Suspended, nil, func(g *guard.Guard) error { return g.Stop(t.Context(), fence) }, "no image"},
		"killed, its image is older": {schemas.Suspended, &head, func(g *guard.Guard) error { return g.Stop(t.Context(), fence) }, "its image has counted to -1"},
		"killed when deleted":        {schemas.Deleted, nil, func(g *guard.Guard) error { return g.Stop(t.Context(), fence) }, ""},
		"started twice": {schemas.Starting, nil, func(g *guard.Guard) error {
			_, err := g.Start(t.Context(), fence, schemas.Spec{}, allow)
			return err
		}, "beside a tree"},
		"thawed while it is restored": {schemas.Resuming, &head, func(g *guard.Guard) error { return g.Thaw(t.Context(), fence) }, "record says resuming"},
		"thawed":                      {schemas.Running, &head, func(g *guard.Guard) error { return g.Thaw(t.Context(), fence) }, ""},
	} {
		g := &guard.Guard{
			Driver: fake.New(),
			Record: func(schemas.Name) (schemas.SessionRecord, error) { return rec, known },
			Kept:   func(schemas.Head) (int, error) { return kept, nil },
		}
		rec.State, rec.Head, kept = schemas.Starting, nil, -1
		if _, err := g.Start(t.Context(), fence, schemas.Spec{Command: []string{"count"}}, allow); err != nil {
			t.Fatal(err)
		}
		rec.State, rec.Head = c.state, c.head
		_ = c.do(g) // the fake may refuse it
		if got := strings.Join(g.Complaints(), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		known = errors.New("the server is away")
		_ = g.Stop(t.Context(), fence)
		if got := g.Complaints(); len(got) > 0 {
			t.Errorf("%s: with the record unknown: %q", name, got)
		}
		known = nil
	}
}
