package ingress

import (
	"context"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// policies knows what the policies of sessions say of requests.
type policies struct {
	fixed Policy // in place of all of them, if given

	mu  sync.Mutex
	all map[schemas.Name]ruled
}

// ruled is what was seen of a session's policy.
type ruled struct {
	policy Policy
	at     time.Time
}

// current is how long a policy is believed that was seen: a change counts after that.
const current = 5 * time.Second

func newPolicies(fixed Policy) *policies {
	return &policies{fixed: fixed, all: map[schemas.Name]ruled{}}
}

// of gives the policy of a session that was seen last; ok is false if it may have changed since, or none was.
func (c *policies) of(n schemas.Name) (p Policy, ok bool) {
	if c.fixed != nil {
		return c.fixed, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.all[n]
	if !known {
		return DefaultPolicy(), false
	}
	return r.policy, time.Since(r.at) < current
}

// saw takes in a session that was looked at, and gives its policy.
func (c *policies) saw(n schemas.Name, v schemas.View) Policy {
	if c.fixed != nil {
		return c.fixed
	}
	p := DefaultPolicy()
	if v.Wake != nil {
		p = PolicyOf(v.Wake)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= remembered {
		clear(c.all)
	}
	c.all[n] = ruled{p, time.Now()}
	return p
}

// look gives the policy of a session. If it can't be found out now it is the one that was seen last, or else the
// default one: who waits for the session tries again by that.
func (c *policies) look(ctx context.Context, w Waker, t Target) Policy {
	p, ok := c.of(t.Name)
	if ok {
		return p
	}
	v, err := w.Look(ctx, t)
	if err != nil {
		return p
	}
	return c.saw(t.Name, v)
}

// Uses reports whether a request that a page makes is a use of the session, of which the target has the name.
func (p *Proxy) Uses(ctx context.Context, t Target) bool {
	return UseOf(Fetch, p.policies.look(ctx, p.Waker, t)).Lease
}
