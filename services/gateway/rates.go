package gateway

import (
	"crypto/sha256"
	"sync"

	"golang.org/x/time/rate"
)

// How many requests one token, or one address without, may make: so many a second, and so many at once.
const (
	perSecond = 50
	atOnce    = 200
	// maxRates bounds how many are remembered. One that is forgotten begins with a full allowance.
	maxRates = 10_000
)

// rates holds each of those who ask to a rate. Of a token it keeps a digest.
type rates struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*rate.Limiter
}

func newRates() *rates { return &rates{all: map[[sha256.Size]byte]*rate.Limiter{}} }

func (r *rates) allow(who string) bool {
	key := sha256.Sum256([]byte(who))
	r.mu.Lock()
	l := r.all[key]
	if l == nil {
		if len(r.all) >= maxRates {
			r.forget()
		}
		l = rate.NewLimiter(perSecond, atOnce)
		r.all[key] = l
	}
	r.mu.Unlock()
	return l.Allow()
}

// forget drops those that have their whole allowance; all if none has. It is called with mu held.
func (r *rates) forget() {
	for key, l := range r.all {
		if l.Tokens() >= atOnce {
			delete(r.all, key)
		}
	}
	if len(r.all) >= maxRates {
		clear(r.all)
	}
}
