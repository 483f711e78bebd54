package api

import (
	"slices"
	"sync"

	"github.com/diapause/diapause/schemas"
)

// How many requests of bearers of tokens are under way at a time that read much: the log of sessions, the store, the use
// history. Of one token, of one tenant, and of all tenants. The bounds differ so that one tenant leaves some to the others, and
// one token some to the others of its tenant. Tokens of operators, which are of no tenant, have the first bound alone.
const (
	costlyOfToken  = 4
	costlyOfTenant = 8
	costlyAtOnce   = 32
)

// costly are the verbs that read much.
var costly = []string{"usage", "verify", "policy_simulate", "history", "audit", "store_stats", "store_check", "store_prune"}

// costs holds bearers of tokens to those bounds. Callers with credentials of NATS are the operator's own.
type costs struct {
	mu       sync.Mutex
	all      int // of tenants
	ofTenant map[schemas.Tenant]int
	ofToken  map[string]int
}

func newCosts() *costs {
	return &costs{ofTenant: map[schemas.Tenant]int{}, ofToken: map[string]int{}}
}

// begin takes a request, which is under way until end is called, or refuses it.
func (c *costs) begin(by Caller, verb string) (end func(), err error) {
	if by.Token == nil || !slices.Contains(costly, verb) {
		return func() {}, nil
	}
	tenant, token := by.Tenant, by.Token.ID
	c.mu.Lock()
	defer c.mu.Unlock()
	what := ""
	switch {
	case c.ofToken[token] >= costlyOfToken:
		what = "token"
	case tenant != "" && c.ofTenant[tenant] >= costlyOfTenant:
		what = "tenant"
	case tenant != "" && c.all >= costlyAtOnce:
		what = "server"
	}
	if what != "" {
		return nil, schemas.FailedError(schemas.ReasonTooMany, "too many costly requests of this %s are under way", what).WithHint("ask again when one of them has ended")
	}
	if tenant != "" {
		c.all++
		c.ofTenant[tenant]++
	}
	c.ofToken[token]++
	return func() { c.end(tenant, token) }, nil
}

func (c *costs) end(tenant schemas.Tenant, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tenant != "" {
		c.all--
		if c.ofTenant[tenant]--; c.ofTenant[tenant] == 0 {
			delete(c.ofTenant, tenant)
		}
	}
	if c.ofToken[token]--; c.ofToken[token] == 0 {
		delete(c.ofToken, token)
	}
}
