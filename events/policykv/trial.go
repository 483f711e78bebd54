package policykv

import (
	"maps"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Trial gives what sessions would be held to if a scope's document said p, by the same
// layers that hold now.
func (c *Cache) Trial(scope schemas.PolicyScope, p schemas.Policy) func(schemas.SessionRecord) session.Policy {
	if n, ok := scope.Session(); ok {
		return func(r schemas.SessionRecord) session.Policy {
			if r.Name() != n {
				return c.For(r)
			}
			return c.Class(r.Class).Ruled(r.Idle).With(p)
		}
	}
	c.mu.Lock()
	docs := maps.Clone(c.docs)
	c.mu.Unlock()
	docs[scope] = Versioned{PolicyDocument: schemas.PolicyDocument{Scope: scope, Policy: p}}
	l := layer(docs)
	return func(r schemas.SessionRecord) session.Policy {
		out := l.class(r.Class).Ruled(r.Idle)
		c.mu.Lock()
		defer c.mu.Unlock()
		if o, ok := c.own[r.Name()]; ok && o.doc.UID == r.UID {
			out = out.With(o.doc.Policy)
		}
		return out
	}
}

// Covers reports whether a scope is about a session. A template is none.
func Covers(scope schemas.PolicyScope, r schemas.SessionRecord) bool {
	if _, template := r.Name().Template(); template {
		return false
	}
	n, ok := scope.Session()
	switch {
	case ok:
		return r.Name() == n
	case scope.Class() != "":
		return r.Class == scope.Class()
	}
	return true
}

// Effective gives what holds in a scope, all layers put together. r is the record of a
// scope that is about a session, and the zero record else.
func (c *Cache) Effective(scope schemas.PolicyScope, r schemas.SessionRecord) schemas.Policy {
	class := scope.Class()
	if _, ok := scope.Session(); ok {
		class = r.Class
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := scope.Tenant(); t != "" {
		return c.quota(t)
	}
	out := defaultsOf(c.docs[schemas.ScopeDefaults].PolicyDocument, class).Over(session.Builtin(class))
	out = c.docs[schemas.ScopeAll].Policy.Over(out)
	if scope != schemas.ScopeAll {
		out.Slots, out.Quota = nil, nil // they are of hosts and of tenants
	}
	if class != "" {
		out = c.docs[schemas.ClassScope(class)].Policy.Over(out)
	}
	if _, ok := scope.Session(); ok {
		out = session.RuleOf(r.Idle).Over(out)
		if o := c.own[r.Name()]; o != nil && o.doc.UID == r.UID {
			if own := o.doc.Policy; own.Grace != nil && own.Never == nil {
				never := false // a grace that is given later is meant
				out.Never = &never
			}
			out = o.doc.Policy.Over(out)
		}
	}
	return out
}
