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
	// How many requests of one address may have a token that there isn't. More are refused before the API is
	// asked; tokens that were found before aren't held to it.
	wrongPerSecond = 5
	wrongAtOnce    = 50
	// maxRates bounds how many of each are remembered. One that is forgotten begins with a full allowance.
	maxRates = 10_000
)

// rates holds each of those who ask to a rate. Of tokens it keeps digests.
type rates struct {
	mu    sync.Mutex
	asked map[digest]*rate.Limiter // by token, or by address
	wrong map[digest]*rate.Limiter // by address
	found map[digest]struct{}      // tokens that the API knows
}

type digest = [sha256.Size]byte

func newRates() *rates {
	return &rates{asked: map[digest]*rate.Limiter{}, wrong: map[digest]*rate.Limiter{}, found: map[digest]struct{}{}}
}

// allow reports whether a request may go on.
func (r *rates) allow(f from) bool {
	who, token := "address "+f.address, digest{}
	if f.token != "" {
		who, token = "token "+f.token, sha256.Sum256([]byte(f.token))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !limiter(r.asked, who, perSecond, atOnce).Allow() {
		return false
	}
	_, found := r.found[token]
	return f.token == "" || found || limiter(r.wrong, f.address, wrongPerSecond, wrongAtOnce).Tokens() >= 1
}

// answered takes whether the API knows the token of a request.
func (r *rates) answered(f from, known bool) {
	token := sha256.Sum256([]byte(f.token))
	r.mu.Lock()
	defer r.mu.Unlock()
	if !known {
		delete(r.found, token)
		limiter(r.wrong, f.address, wrongPerSecond, wrongAtOnce).Allow()
		return
	}
	if len(r.found) >= maxRates {
		clear(r.found)
	}
	r.found[token] = struct{}{}
}

// limiter gives that of one of those in all.
func limiter(all map[digest]*rate.Limiter, who string, every rate.Limit, burst int) *rate.Limiter {
	key := sha256.Sum256([]byte(who))
	l := all[key]
	if l == nil {
		if len(all) >= maxRates {
			forget(all)
		}
		l = rate.NewLimiter(every, burst)
		all[key] = l
	}
	return l
}

// forget drops those that have their whole allowance; all if too few have.
func forget(all map[digest]*rate.Limiter) {
	for key, l := range all {
		if l.Tokens() >= float64(l.Burst()) {
			delete(all, key)
		}
	}
	if len(all) >= maxRates {
		clear(all)
	}
}
