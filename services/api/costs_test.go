package api

import (
	"fmt"
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/janitor"
)

// One token leaves costly requests to the others of its tenant, one tenant to the others, and what ends makes room.
func TestCosts(t *testing.T) {
	c := newCosts()
	of := func(tenant schemas.Tenant, token string) Caller {
		return Caller{Tenant: tenant, Token: &schemas.TokenRecord{ID: token}}
	}
	var ends []func()
	take := func(by Caller, n int) {
		t.Helper()
		for i := range n {
			end, err := c.begin(by, "verify")
			if err != nil {
				t.Fatalf("request %d of %+v: %v", i, by, err)
			}
			ends = append(ends, end)
		}
	}
	refused := func(what string, by Caller) {
		t.Helper()
		if _, err := c.begin(by, "usage"); schemas.ReasonOf(err) != schemas.ReasonTooMany {
			t.Errorf("one more of a %s: %v", what, err)
		}
	}
	take(of("acme", "a"), costlyOfToken)
	refused("token", of("acme", "a"))
	if end, err := c.begin(of("acme", "a"), "show"); err != nil {
		t.Errorf("what costs little: %v", err)
	} else {
		end()
	}
	take(of("acme", "b"), costlyOfTenant-costlyOfToken)
	refused("tenant", of("acme", "c"))
	for i := range costlyAtOnce - costlyOfTenant {
		take(of(schemas.Tenant(fmt.Sprintf("tenant%d", i)), fmt.Sprintf("e%d", i)), 1)
	}
	refused("server", of("other", "d"))
	take(of("", "operator"), costlyOfToken)
	refused("token", of("", "operator"))
	if end, err := c.begin(Caller{Identity: "system"}, "usage"); err != nil {
		t.Errorf("the operator's own: %v", err)
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	if c.all != 0 || len(c.ofTenant) != 0 || len(c.ofToken) != 0 {
		t.Errorf("%d are under way at the end: %v, %v", c.all, c.ofTenant, c.ofToken)
	}
	take(of("acme", "a"), costlyOfToken)
}

// The server holds bearers to the bounds, and a verb that costs much is one that there is.
func TestServerHoldsToCosts(t *testing.T) {
	b := newBench(t)
	ofStore := (&storeVerbs{janitor: &janitor.Janitor{}}).storeVerbs()
	for _, verb := range costly {
		if b.server.verbs[verb] == nil && ofStore[verb] == nil && !slices.Contains(ofPolicies, verb) {
			t.Errorf("there is no verb %q", verb)
		}
	}
	by := Caller{Tenant: agent.Tenant, Role: RoleOwner, Token: &schemas.TokenRecord{ID: "a"}}
	for range costlyOfToken {
		_, err := b.server.costs.begin(by, "verify")
		b.must(err)
	}
	if _, err := b.server.Call(b.ctx, by, "history", schemas.Request{Name: agent.String()}); schemas.ReasonOf(err) != schemas.ReasonTooMany {
		t.Errorf("one more: %v", err)
	}
}
