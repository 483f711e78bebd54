package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// What a caller writes into a record has bounds, and what is at a bound is taken.
func TestBounds(t *testing.T) {
	long := strings.Repeat("a", maxProgram+1)
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("10.0.%d.0/24", i))
		}
		return all
	}
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint(i)] = "x"
		}
		return all
	}
	for _, c := range []struct {
		field string // that is refused; none if empty
		run   schemas.RunRequest
		spec  schemas.Spec
	}{
		{"", schemas.RunRequest{Program: long[1:], Placement: &schemas.Placement{Labels: labels(maxEntries), Apart: make([]schemas.SessionID, maxEntries)}}, schemas.Spec{AllowOut: many(maxEntries), Publish: many(maxEntries)}},
		{"program", schemas.RunRequest{Program: long}, schemas.Spec{}},
		{"driver", schemas.RunRequest{Driver: schemas.DriverName(long)}, schemas.Spec{}},
		{"placement.labels", schemas.RunRequest{Placement: &schemas.Placement{Labels: labels(maxEntries + 1)}}, schemas.Spec{}},
		{"placement.labels", schemas.RunRequest{Placement: &schemas.Placement{Labels: map[string]string{long: "x"}}}, schemas.Spec{}},
		{"placement.labels", schemas.RunRequest{Placement: &schemas.Placement{Labels: map[string]string{"x": long}}}, schemas.Spec{}},
		{"placement.apart", schemas.RunRequest{Placement: &schemas.Placement{Apart: make([]schemas.SessionID, maxEntries+1)}}, schemas.Spec{}},
		{"allow_out", schemas.RunRequest{}, schemas.Spec{AllowOut: many(maxEntries + 1)}},
		{"allow_out", schemas.RunRequest{}, schemas.Spec{AllowOut: []string{long}}},
		{"publish", schemas.RunRequest{}, schemas.Spec{Publish: many(maxEntries + 1)}},
		{"publish", schemas.RunRequest{}, schemas.Spec{Publish: []string{long}}},
		{"cap_add", schemas.RunRequest{}, schemas.Spec{CapAdd: []string{long}}},
		{"network", schemas.RunRequest{}, schemas.Spec{Network: long}},
		{"root", schemas.RunRequest{}, schemas.Spec{Root: "oci:" + long}},
	} {
		var err error
		if c.run.Spec, err = json.Marshal(c.spec); err != nil {
			t.Fatal(err)
		}
		err = bounded(&c.run)
		if c.field == "" && err != nil || c.field != "" && (schemas.CodeOf(err) != schemas.CodeUsage || !strings.HasPrefix(err.Error(), c.field+": ")) {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

// A request whose record would be too large is refused before anything is written.
func TestRunIsBounded(t *testing.T) {
	b := newBench(t)
	req := schemas.Request{Name: agent.String(), Run: &schemas.RunRequest{Program: strings.Repeat("a", maxProgram+1), Spec: []byte(`{"command":["sh"]}`)}}
	if _, err := b.server.Call(b.ctx, ann, "run", req); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("a long program: %v", err)
	}
	if _, err := b.records.Get(b.ctx, agent); err == nil {
		t.Error("there is a record of it")
	}
}
