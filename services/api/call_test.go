package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/scheduler"
)

// What a caller may ask for is held for every verb there is.
func TestCallersAreConfined(t *testing.T) {
	acme := schemas.Request{Name: "acme/web"}
	for _, c := range []struct {
		caller Caller
		verb   string
		req    schemas.Request
		want   schemas.Reason
	}{
		{Caller{}, "rm", acme, ""},
		{Caller{Role: RoleLook}, "show", acme, ""},
		{Caller{Role: RoleLook}, "ensure", acme, schemas.ReasonDenied},
		{Caller{Role: RoleUse}, "ensure", acme, ""},
		{Caller{Role: RoleUse}, "rm", acme, schemas.ReasonDenied},
		{Caller{Role: "a newer one"}, "list", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "rm", acme, ""},
		{Caller{Tenant: "other"}, "rm", acme, schemas.ReasonDenied},
		{Caller{Tenant: "other"}, "show", schemas.Request{Name: "web"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "show", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "show", schemas.Request{Name: "acme/a b"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "fork", schemas.Request{Name: "acme/web", To: "acme/twin"}, ""},
		{Caller{Tenant: "acme"}, "fork", schemas.Request{Name: "acme/web", To: "other/twin"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "usage", schemas.Request{Name: "acme/web"}, ""},
		{Caller{Tenant: "acme"}, "usage", schemas.Request{Name: "other/web"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "list", schemas.Request{Tenant: "other"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "audit", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "stats", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "key_add", schemas.Request{Tenant: "acme"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "policy_set", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "store_prune", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "token_create", schemas.Request{Tenant: "acme"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, "fork", schemas.Request{Name: "acme/web", To: "acme/twin", Publish: []string{"80:80"}}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleReport}, "activity", acme, ""},
		{Caller{Tenant: "acme", Role: RoleReport}, "show", acme, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleReport}, "list", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleReport}, whoami, schemas.Request{}, ""},
		{Caller{Tenant: "acme", Role: RoleLook}, "activity", acme, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleLook}, "suspend", acme, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleLook}, "host_ls", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleClient}, "suspend", acme, ""},
		{Caller{Tenant: "acme", Role: RoleClient}, "activity", acme, ""},
		{Caller{Tenant: "acme", Role: RoleClient}, "rm", acme, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleClient}, "run", acme, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "rm", acme, ""},
		{Caller{Tenant: "acme", Role: RoleOwner}, "rm", schemas.Request{Name: "acme/web", Tenant: "other"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", policyOfScope("session:acme/web"), ""},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", setting(schemas.Policy{Awake: new(schemas.Duration)}), ""},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", setting(schemas.Policy{Score: &schemas.Score{}}), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", setting(schemas.Policy{Keep: &schemas.Keep{}}), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", setting(schemas.Policy{Life: new(schemas.Duration)}), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_test", setting(schemas.Policy{Life: new(schemas.Duration)}), ""},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", policyOfScope("session:other/web"), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", policyOfScope("session:web"), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", policyOfScope("tenant:acme"), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_set", policyOfScope("all"), schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, "policy_get", schemas.Request{}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, "rm", acme, ""},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, "rm", schemas.Request{Name: "acme/other"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, "fork", schemas.Request{Name: "acme/web", To: "acme/twin"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, "list", schemas.Request{Name: "acme/other"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, "policy_set", policyOfScope("session:acme/other"), schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateCreate, schemas.Request{Name: "acme/web", To: "acme/py"}, ""},
		{Caller{Tenant: "acme"}, templateCreate, schemas.Request{Name: "acme/web", To: "other/py"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateCreate, schemas.Request{Name: "other/web", To: "acme/py"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateRun, schemas.Request{Name: "acme/py", To: "acme/twin"}, ""},
		{Caller{Tenant: "acme"}, templateRun, schemas.Request{Name: "other/py", To: "acme/twin"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateRun, schemas.Request{Name: "acme/py", To: "acme/twin", Publish: []string{"80:80"}}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateRemove, schemas.Request{Name: "other/py"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme"}, templateList, schemas.Request{Tenant: "other"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleOwner}, templateRemove, schemas.Request{Name: "acme/py"}, ""},
		{Caller{Tenant: "acme", Role: RoleLook}, templateList, schemas.Request{}, ""},
		{Caller{Tenant: "acme", Role: RoleLook}, templateRemove, schemas.Request{Name: "acme/py"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Role: RoleClient}, templateRun, schemas.Request{Name: "acme/py", To: "acme/twin"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, templateCreate, schemas.Request{Name: "acme/web", To: "acme/web"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, templateRemove, schemas.Request{Name: "acme/web"}, schemas.ReasonDenied},
		{Caller{Tenant: "acme", Session: "web", Role: RoleOwner}, templateList, schemas.Request{}, schemas.ReasonDenied},
	} {
		if got := schemas.ReasonOf(confine(c.caller, c.verb, &c.req)); got != c.want {
			t.Errorf("%+v asks for %s of %+v: %q, want %q", c.caller, c.verb, c.req, got, c.want)
		}
	}
	all := schemas.Request{}
	if err := confine(Caller{Tenant: "acme"}, "list", &all); err != nil || all.Tenant != "acme" {
		t.Errorf("a list of all is one of tenant %q, %v", all.Tenant, err)
	}
	all = schemas.Request{}
	if err := confine(Caller{Tenant: "acme", Role: RoleOwner}, templateList, &all); err != nil || all.Tenant != "acme" {
		t.Errorf("templates are listed of tenant %q, %v", all.Tenant, err)
	}
	for _, verb := range []string{"list", "usage"} {
		one := schemas.Request{}
		if err := confine(Caller{Tenant: "acme", Session: "web"}, verb, &one); err != nil || one.Tenant != "acme" || one.Name != "acme/web" {
			t.Errorf("%s of all for the bearer of a session's token is one of tenant %q, session %q, %v", verb, one.Tenant, one.Name, err)
		}
	}
}

func policyOfScope(scope string) schemas.Request {
	return schemas.Request{Policy: &schemas.PolicyRequest{Scope: scope}}
}

func TestCalls(t *testing.T) {
	b := newBench(t)
	b.running()
	if _, err := b.server.Call(b.ctx, ann, "sing", schemas.Request{}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("a verb that there isn't: %v", err)
	}
	_, err := b.server.Call(b.ctx, ann, "history", schemas.Request{Name: "acme/none"})
	if e, ok := err.(*schemas.APIError); !ok || e.Code != schemas.CodeNoSession || e.Session != "acme/none" {
		t.Errorf("a session that there isn't: %#v", err)
	}
}

func setting(p schemas.Policy) schemas.Request {
	r := policyOfScope("session:acme/web")
	r.Policy.Policy = &p
	return r
}

// Whose sessions made room is told to those who may know of them.
func TestOwn(t *testing.T) {
	made := []string{"acme/web", "other/web", "acme/db", "web"}
	for want, c := range map[string]Caller{
		"acme/web,other/web,acme/db,web": {}, "acme/web,acme/db": {Tenant: "acme"}, "acme/db": {Tenant: "acme", Session: "db"}, "web": {Tenant: schemas.DefaultTenant},
	} {
		if got := strings.Join(c.own(slices.Clone(made)), ","); got != want {
			t.Errorf("%+v hears of %q, want %q", c, got, want)
		}
	}
}

// A host without room doesn't tell a tenant of the sessions of others.
func TestNoRoomNamesOwnSessions(t *testing.T) {
	full := &scheduler.NoRoom{Host: "h", Slots: 3, Because: []scheduler.Kept{
		{Session: schemas.Name{Tenant: "acme", Session: "db"}, Why: "busy.k: tea"},
		{Session: schemas.Name{Tenant: "other", Session: "secret"}, Why: "hold.k: plans"},
		{Session: schemas.Name{Tenant: "other", Session: "web"}, Why: "hold.k: plans"},
	}}
	for _, c := range []struct {
		by   Caller
		want string
	}{
		{Caller{}, "(acme/db: busy.k: tea; other/secret: hold.k: plans; other/web: hold.k: plans)"},
		{Caller{Tenant: "acme"}, "(acme/db: busy.k: tea; another tenant's: 2)"},
		{Caller{Tenant: "acme", Session: "web"}, "(another tenant's: 3)"},
	} {
		if got := full.For(c.by.knows); !strings.Contains(got, c.want) {
			t.Errorf("%+v hears %q, want %q", c.by, got, c.want)
		}
	}
}

// What a simulation says of the log's gaps names no session of another tenant.
func TestSimulateNamesOwnSessions(t *testing.T) {
	p := newMorning(120)
	p.gaps = []archive.Gap{
		{Name: schemas.Name{Tenant: "acme", Session: "db"}, Why: "lost"}, {Name: schemas.Name{Tenant: "other", Session: "web"}, Why: "lost"},
		{Name: schemas.Name{Tenant: "other", Session: "db"}, Why: "lost"}, {Why: "a segment can't be read"},
	}
	if all := strings.Join(p.notes(0), "\n"); !strings.Contains(all, "other/web") || !strings.Contains(all, "acme/db") {
		t.Errorf("an operator is told %q", all)
	}
	p.by = Caller{Tenant: "acme"}
	notes := p.notes(0)
	if all := strings.Join(notes, "\n"); len(notes) != 3 || strings.Contains(all, "other/") || !strings.Contains(all, "acme/db") || !strings.Contains(all, "another tenant's") {
		t.Errorf("a tenant is told %q", all)
	}
}
