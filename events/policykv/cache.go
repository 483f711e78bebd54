package policykv

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Cache follows the bucket and says what each session is held to. It is safe for
// concurrent use. Before the first load, and where no document says anything, what is
// built in holds.
type Cache struct {
	*Store
	log *slog.Logger

	layers atomic.Pointer[layers]
	owned  atomic.Int64 // len(own)

	mu      sync.Mutex
	own     map[schemas.Name]*own
	docs    map[schemas.PolicyScope]Versioned // of all and of the classes, and the defaults
	changed chan struct{}
}

// layers are the policies that many sessions share.
type layers struct {
	classes    map[string]session.Policy // with what holds for all below
	all        schemas.Policy
	defaults   schemas.PolicyDocument // below all
	slots      *int                   // of hosts that weren't started with any
	slotsBy    string                 // what says so
	watermarks schemas.Watermarks
}

// own is what one session is held to, and what was made of it last.
type own struct {
	doc    Versioned
	below  *layers
	class  string
	idle   schemas.Idle
	policy session.Policy
}

// NewCache makes a cache that knows nothing yet.
func NewCache(s *Store, log *slog.Logger) *Cache {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Cache{Store: s, log: log, own: map[schemas.Name]*own{}, docs: map[schemas.PolicyScope]Versioned{}, changed: make(chan struct{}, 1)}
	c.layers.Store(layer(c.docs))
	return c
}

// Load reads all policies. Call it before deciding by the cache.
func (c *Cache) Load(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	loaded := false
	err := c.Watch(ctx, c.take, c.refuse, func() { loaded = true; stop() })
	if loaded {
		return nil
	}
	return err
}

// Serve follows the bucket until ctx ends. While it can't, what was known last holds.
func (c *Cache) Serve(ctx context.Context) error {
	return c.Watch(ctx, c.take, c.refuse, func() {})
}

// Get reads a scope's document, as Store.Get does. The cache has it from then on.
func (c *Cache) Get(ctx context.Context, scope schemas.PolicyScope) (Versioned, error) {
	v, err := c.Store.Get(ctx, scope)
	if err == nil && v.Seq > 0 {
		c.take(v)
	}
	return v, err
}

// Set replaces a document, as Store.Set does. The cache has the new one when it returns, and doesn't wait to hear of it.
func (c *Cache) Set(ctx context.Context, prev Versioned, doc schemas.PolicyDocument) (Versioned, error) {
	v, err := c.Store.Set(ctx, prev, doc)
	if err == nil {
		c.take(v)
	}
	return v, err
}

// Changed has a token whenever some policy has changed since the last was taken. It is
// for one reader.
func (c *Cache) Changed() <-chan struct{} { return c.changed }

func (c *Cache) refuse(err error) {
	c.log.Warn("not a policy; the one before holds", "err", err)
}

func (c *Cache) take(v Versioned) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := v.Scope.Session(); ok {
		if old := c.own[n]; old != nil && old.doc.Seq >= v.Seq {
			return
		}
		if len(v.Policy.Lines()) == 0 {
			delete(c.own, n)
		} else {
			c.own[n] = &own{doc: v}
		}
		c.owned.Store(int64(len(c.own)))
	} else {
		if c.docs[v.Scope].Seq >= v.Seq {
			return
		}
		c.docs[v.Scope] = v
		c.layers.Store(layer(c.docs))
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func layer(docs map[schemas.PolicyScope]Versioned) *layers {
	l := &layers{classes: map[string]session.Policy{}, all: docs[schemas.ScopeAll].Policy, defaults: docs[schemas.ScopeDefaults].PolicyDocument}
	for _, d := range l.defaults.Defaults {
		if d.Policy.Slots != nil {
			l.slots, l.slotsBy = d.Policy.Slots, d.From
		}
	}
	for _, class := range session.Classes() {
		l.classes[class] = l.of(class).With(docs[schemas.ClassScope(class)].Policy)
	}
	if w := l.all.Watermarks; w != nil {
		l.watermarks = *w
	}
	return l
}

// of gives the policy of a class without its own document.
func (l *layers) of(class string) session.Policy {
	p, _ := session.PolicyFor(class, nil)
	return p.With(defaultsOf(l.defaults, class)).With(l.all)
}

// Class gives what sessions of a class are held to that have no rule of their own.
func (c *Cache) Class(class string) session.Policy { return c.layers.Load().class(class) }

func (l *layers) class(class string) session.Policy {
	if p, ok := l.classes[class]; ok {
		return p
	}
	return l.of(class) // of a later version
}

// For gives what a session is held to. Of the record it reads name, uid, class and
// idle rule.
func (c *Cache) For(r schemas.SessionRecord) session.Policy {
	l := c.layers.Load()
	if c.owned.Load() > 0 {
		if p, ok := c.ownOf(&r, l); ok {
			return p
		}
	}
	return l.class(r.Class).Ruled(r.Idle)
}

func (c *Cache) ownOf(r *schemas.SessionRecord, l *layers) (p session.Policy, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.own[r.Name()]
	if !ok || o.doc.UID != r.UID {
		return p, false
	}
	var idle schemas.Idle
	if r.Idle != nil {
		idle = *r.Idle
	}
	if o.below != l || o.class != r.Class || o.idle != idle {
		o.below, o.class, o.idle = l, r.Class, idle
		o.policy = l.class(r.Class).Ruled(r.Idle).With(o.doc.Policy)
	}
	return o.policy, true
}

// Watermarks says how full a host may get; what isn't set is nil.
func (c *Cache) Watermarks() schemas.Watermarks { return c.layers.Load().watermarks }

// Quota says how much a tenant may have; what isn't set is nil.
func (c *Cache) Quota(t schemas.Tenant) schemas.Quota {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.quota(t).Quota; q != nil {
		return *q
	}
	return schemas.Quota{}
}

// quota gives the policy of a tenant, over that of all and the defaults. It is called with mu held.
func (c *Cache) quota(t schemas.Tenant) schemas.Policy {
	own, all := c.docs[schemas.TenantScope(t)].Policy, c.docs[schemas.ScopeAll].Policy
	below := schemas.Policy{Quota: defaultsOf(c.docs[schemas.ScopeDefaults].PolicyDocument, "").Quota}
	return own.Over(schemas.Policy{Quota: all.Quota}.Over(below))
}

// Versions gives which documents a session is held to, the uppermost last: with what is
// built in below. Of the record it reads what For does.
func (c *Cache) Versions(r schemas.SessionRecord) []Versioned {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Versioned
	for _, scope := range []schemas.PolicyScope{schemas.ScopeAll, schemas.ClassScope(r.Class)} {
		if v, ok := c.docs[scope]; ok {
			out = append(out, v)
		}
	}
	if o, ok := c.own[r.Name()]; ok && o.doc.UID == r.UID {
		out = append(out, o.doc)
	}
	return out
}

// Documents gives all that is set, of all and of the classes, or, with sessions, of
// these as well.
func (c *Cache) Documents(sessions bool) []Versioned {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Versioned
	for _, v := range c.docs {
		out = append(out, v)
	}
	for _, o := range c.own {
		if sessions {
			out = append(out, o.doc)
		}
	}
	return out
}
