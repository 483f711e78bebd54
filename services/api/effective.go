package api

import (
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// What the parts of a policy are from, besides the scopes of other policies.
const (
	fromBuiltIn   = "built in"
	fromIdle      = "run --idle"
	fromRetention = "up --retention"
)

func (s *policies) policyView(v policykv.Versioned, r schemas.SessionRecord) schemas.PolicyView {
	out := schemas.PolicyView{Scope: v.Scope, Version: v.Version, Policy: v.Policy, Effective: s.policies.Effective(v.Scope, r)}
	if v.Version > 0 {
		out.Change = &v.Change
	}
	if v.Scope == schemas.ScopeDefaults {
		return schemas.PolicyView{Scope: v.Scope, Version: v.Version, Defaults: v.Defaults, Change: out.Change}
	}
	class := v.Scope.Class()
	if _, ok := v.Scope.Session(); ok {
		class = r.Class
	}
	if s.defaults != nil && v.Scope.Tenant() == "" {
		below := s.defaults(class)
		if v.Scope != schemas.ScopeAll {
			below.Watermarks = nil // they are of hosts
		}
		out.Effective = out.Effective.Over(below)
	}
	out.Origins = s.origins(v, r, class, out.Effective)
	return out
}

// origins says of each part of what holds in a scope which policy it is from, the uppermost
// that sets any of it.
func (s *policies) origins(v policykv.Versioned, r schemas.SessionRecord, class string, effective schemas.Policy) map[string]string {
	docs := map[schemas.PolicyScope]schemas.Policy{}
	for _, d := range s.policies.Documents(false) {
		docs[d.Scope] = d.Policy
	}
	out := map[string]string{}
	set := func(p schemas.Policy, from string) {
		for _, key := range p.Keys() {
			if out[key] == "" {
				out[key] = from
			}
		}
	}
	set(v.Policy, string(v.Scope))
	if _, ok := v.Scope.Session(); ok {
		set(session.RuleOf(r.Idle), fromIdle)
	}
	if class != "" {
		set(docs[schemas.ClassScope(class)], string(schemas.ClassScope(class)))
	}
	set(docs[schemas.ScopeAll], string(schemas.ScopeAll))
	defaults := map[string]string{}
	for _, d := range s.policies.DefaultsIn(class) {
		defaults[d.Key] = d.From
	}
	for _, key := range effective.Keys() {
		switch {
		case out[key] != "":
		case defaults[key] != "":
			out[key] = defaults[key]
		case key == "keep":
			out[key] = fromRetention
		default:
			out[key] = fromBuiltIn
		}
	}
	return out
}
