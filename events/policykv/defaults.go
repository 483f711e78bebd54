package policykv

import (
	"context"
	"errors"
	"reflect"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// swaps is how often a change of the defaults is tried while others change them.
const swaps = 10

// SetDefaults has what is given be the lowest layer, for all that read the bucket: below the policies,
// above what is built in. They are one document, so that of two processes with defaults one holds
// entirely: that of the last one started, which is theirs also if another had set the same before. A process
// without any takes back what it set itself, and leaves alone what another did.
// The version that holds comes back; 0 if there never was one.
func (s *Store) SetDefaults(ctx context.Context, by string, all []schemas.PolicyDefault) (v Versioned, err error) {
	for range swaps {
		if v, err = s.Get(ctx, schemas.ScopeDefaults); err != nil {
			return v, err
		}
		own := v.Change.By == by
		if len(all) == 0 && (len(v.Defaults) == 0 || !own) || len(all) > 0 && own && reflect.DeepEqual(v.Defaults, all) {
			return v, nil
		}
		reason := "it was started with them"
		if len(all) == 0 {
			reason = "it was started without them"
		}
		doc := schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Defaults: all, Change: schemas.PolicyChange{By: by, Reason: reason}}
		if v, err = s.Set(ctx, v, doc); !errors.Is(err, ErrVersion) {
			return v, err
		}
	}
	return v, err
}

// defaultsOf gives what holds by default for a class; for all classes, if it is empty.
func defaultsOf(d schemas.PolicyDocument, class string) (p schemas.Policy) {
	for _, scope := range []schemas.PolicyScope{schemas.ScopeAll, schemas.ClassScope(class)} {
		for _, one := range d.Defaults {
			if one.Scope == scope {
				p = one.Policy.Over(p)
			}
		}
	}
	return p
}

// Defaults gives the document of the defaults; of version 0 if there never was one.
func (c *Cache) Defaults() Versioned {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.docs[schemas.ScopeDefaults]
}

// Default is one part of a policy that holds by default.
type Default struct{ Key, From string }

// Decisive gives the parts that hold for a session by default: no policy says otherwise, nor does the rule
// that it was run with. Of the record it reads what For does.
func (c *Cache) Decisive(r schemas.SessionRecord) (out []Default) {
	above := session.RuleOf(r.Idle)
	for _, v := range c.Versions(r) {
		above = v.Policy.Over(above)
	}
	for _, d := range c.DefaultsIn(r.Class) {
		if d.Key != "slots" && d.Key != "quota" && !above.Says(d.Key) && !(d.Key == "grace" && above.Says("never")) {
			out = append(out, d)
		}
	}
	return out
}

// DefaultsIn gives the parts that a class has by default, and what says so; those of all classes if it is
// empty.
func (c *Cache) DefaultsIn(class string) (out []Default) {
	doc := c.Defaults().PolicyDocument
	from := map[string]string{}
	for _, scope := range []schemas.PolicyScope{schemas.ScopeAll, schemas.ClassScope(class)} {
		for _, one := range doc.Defaults {
			if one.Scope != scope {
				continue
			}
			for _, key := range one.Policy.Keys() {
				from[key] = one.From
			}
		}
	}
	for _, key := range defaultsOf(doc, class).Keys() {
		out = append(out, Default{key, from[key]})
	}
	return out
}

// Slots gives how many sessions a host has room for that was started with own, no limit if 0, and what says
// so if it isn't the host itself: the policy of all, or what a default is from.
func (c *Cache) Slots(own int) (slots int, by string) {
	l := c.layers.Load()
	switch {
	case l.all.Slots != nil:
		return *l.all.Slots, "policy of all"
	case own == 0 && l.slots != nil:
		return *l.slots, l.slotsBy
	}
	return own, ""
}
