package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// PolicyScope says who is held to a policy: "all", "class:web", "tenant:acme", which has a
// quota and nothing else, "session:acme/web-42", or "defaults".
type PolicyScope string

// ScopeAll is everyone.
const ScopeAll PolicyScope = "all"

// ScopeDefaults is of the document that `diapause up` writes when it starts: what it was told to hold
// sessions to where no policy says otherwise. No person sets it.
const ScopeDefaults PolicyScope = "defaults"

// ClassScope gives the scope of a class.
func ClassScope(class string) PolicyScope { return PolicyScope("class:" + class) }

// SessionScope gives the scope of one session.
func SessionScope(n Name) PolicyScope { return PolicyScope("session:" + n.String()) }

// Class gives the class that the scope is about, "" if it is about none.
func (s PolicyScope) Class() string {
	class, _ := strings.CutPrefix(string(s), "class:")
	if class == string(s) {
		return ""
	}
	return class
}

// TenantScope gives the scope of a tenant.
func TenantScope(t Tenant) PolicyScope { return PolicyScope("tenant:" + string(t)) }

// Tenant gives the tenant that the scope is about, "" if it is about none.
func (s PolicyScope) Tenant() Tenant {
	tenant, ok := strings.CutPrefix(string(s), "tenant:")
	if !ok {
		return ""
	}
	return Tenant(tenant)
}

// Session gives the session that the scope is about; ok is false if it is about none.
func (s PolicyScope) Session() (n Name, ok bool) {
	text, ok := strings.CutPrefix(string(s), "session:")
	if !ok {
		return Name{}, false
	}
	n, err := ParseName(text)
	return n, err == nil
}

// Key is the key of the scope's document.
func (s PolicyScope) Key() string {
	if n, ok := s.Session(); ok {
		return "session." + n.Key()
	}
	return strings.ReplaceAll(string(s), ":", ".")
}

// ParsePolicyScope reads a scope as people write it: class:NAME, tenant:NAME,
// session:NAME, all, or the name of a session alone.
func ParsePolicyScope(text string, classes []string) (PolicyScope, error) {
	class, isClass := strings.CutPrefix(text, "class:")
	tenant, isTenant := strings.CutPrefix(text, "tenant:")
	switch {
	case isTenant && !ValidToken(tenant):
		return "", fmt.Errorf("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", tenant)
	case isTenant:
		return TenantScope(Tenant(tenant)), nil
	case text == string(ScopeAll):
		return ScopeAll, nil
	case isClass && slices.Contains(classes, class):
		return ClassScope(class), nil
	case isClass:
		return "", fmt.Errorf("class %q: want one of %s", class, strings.Join(classes, ", "))
	}
	n, err := ParseName(strings.TrimPrefix(text, "session:"))
	if err != nil {
		return "", fmt.Errorf("policy of %q: want all, class:NAME, tenant:NAME or session:NAME: %w", text, err)
	}
	return SessionScope(n), nil
}
