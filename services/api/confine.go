package api

import (
	"slices"
	"strings"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// confine refuses what a caller may not ask for. What is about all tenants becomes a
// request about the caller's own.
func confine(c Caller, verb string, req *schemas.Request) error {
	if c.Role == RoleWatch { // what watches is no token for anything else
		if verb != ofShare {
			return errNoToken
		}
		return nil
	}
	if verb == whoami && c.Role != RoleLogin && c.Role != RolePort {
		return nil
	}
	denied := schemas.FailedError(schemas.ReasonDenied, "%s may not ask for %q", c.Actor(), verb)
	if !c.Role.may(verb) {
		if c.Token == nil {
			return denied
		}
		return denied.WithHint("a token with the role %s may", leastRole(verb))
	}
	if c.Tenant == "" || verb == login || verb == logout {
		return nil
	}
	named, ok := c.names(verb, req)
	if !ok {
		return denied
	}
	for _, n := range named {
		if n.Tenant != c.Tenant || c.Session != "" && n.Session != c.Session {
			return denied.WithHint("%s", c.reach())
		}
	}
	fields := reaching(req)
	if p := req.Policy; verb == "policy_set" && p != nil && p.Policy != nil {
		fields = append(fields, forAll(*p.Policy)...)
	}
	if len(fields) == 0 {
		return nil
	}
	hint := "it reaches the host or other tenants: that takes a token with the role operator"
	if slices.Contains(fields, "run.spec.root") {
		hint = "without a container image as its root, such as oci:alpine:3, it sees files of the host: that takes a token with the role operator"
	}
	return schemas.FailedError(schemas.ReasonDenied, "%s may not ask for %s", c.Actor(), strings.Join(fields, ", ")).WithHint("%s", hint)
}

// leastRole is the role of a token that may ask for a verb, and for the least besides.
func leastRole(verb string) schemas.TokenRole {
	for _, r := range []schemas.TokenRole{schemas.TokenPublisher, schemas.TokenReader, schemas.TokenClient, schemas.TokenOwner} {
		if roles[r].may(verb) {
			return r
		}
	}
	return schemas.TokenOperator
}

// own keeps of the names of sessions those that a caller may know of.
func (c Caller) own(names []string) []string {
	return slices.DeleteFunc(names, func(text string) bool {
		n, err := schemas.ParseName(text)
		return c.Tenant != "" && err != nil || !c.knows(n)
	})
}

// knows reports whether a caller may know of a session.
func (c Caller) knows(n schemas.Name) bool {
	return c.Tenant == "" || n.Tenant == c.Tenant && (c.Session == "" || n.Session == c.Session)
}

// reach says for a person what a caller is confined to.
func (c Caller) reach() string {
	if c.Session != "" {
		return "it is for session " + schemas.Name{Tenant: c.Tenant, Session: c.Session}.String() + " alone"
	}
	return "it is for the sessions of tenant " + string(c.Tenant) + " alone"
}

// names lists the sessions that a request of a caller who is confined is about; ok is false if it is about
// others, or can't be read. A list becomes that of the caller's own.
func (c Caller) names(verb string, req *schemas.Request) (named []schemas.Name, ok bool) {
	if req.Tenant != "" && req.Tenant != c.Tenant {
		return nil, false
	}
	texts := []string{req.Name, req.To}
	switch {
	case (verb == "list" || verb == "usage") && req.Name == "":
		req.Tenant = c.Tenant
		if c.Session != "" {
			req.Name = schemas.Name{Tenant: c.Tenant, Session: c.Session}.String()
		}
	case verb == "list":
	case c.Session != "" && slices.Contains(ofTemplates, verb): // a template is the tenant's, not a session's
		return nil, false
	case verb == templateList:
		req.Tenant = c.Tenant
		return nil, req.Name == "" && req.To == ""
	case slices.Contains(ofPolicies, verb):
		n, ok := policyOf(req)
		if !ok {
			return nil, false
		}
		named = append(named, n)
	case !slices.Contains(ofSessions, verb), req.Name == "":
		return nil, false
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		n, err := schemas.ParseName(text)
		if err != nil {
			return nil, false
		}
		named = append(named, n)
	}
	return named, true
}

// forAll lists the parts of a policy that are at the cost of others: who makes room, how long images are kept, how
// long a session runs in one go, what is rehearsed.
func forAll(p schemas.Policy) (parts []string) {
	for part, set := range map[string]bool{
		"policy.score": p.Score != nil, "policy.keep": p.Keep != nil, "policy.life": p.Life != nil, "policy.rehearse": p.Rehearse != "",
	} {
		if set {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts
}

// policyOf gives the session whose policy a request is about; false if it is about more.
func policyOf(req *schemas.Request) (schemas.Name, bool) {
	if req.Policy == nil {
		return schemas.Name{}, false
	}
	scope, err := schemas.ParsePolicyScope(req.Policy.Scope, session.Classes())
	if err != nil {
		return schemas.Name{}, false
	}
	return scope.Session()
}
