package gateway

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many requests one token, or one address without, may make: so many a second, and so many at once.
const (
	perSecond = 50
	atOnce    = 200
	// The same of requests for ports of sessions: one page of a dev server takes hundreds.
	portsPerSecond = 1000
	portsAtOnce    = 10_000
	// How many tokens that there aren't one address may try. More are refused before the API is asked. Tokens
	// that were found before aren't held to it, the same wrong token again is no further try, and one that was good and
	// has ended is none: so clients that go on with a token that has ended leave the others behind their address their tries.
	wrongPerSecond = 5
	wrongAtOnce    = 50
	// wrongFor is how long a token that there isn't is refused without asking again.
	wrongFor = 5 * time.Second
	// maxRates bounds how many of each are remembered. One that is forgotten begins with a full allowance.
	maxRates = 10_000
)

// rates holds each of those who ask to a rate. Of tokens it keeps digests.
type rates struct {
	mu    sync.Mutex
	asked map[digest]*rate.Limiter // by token, or by network
	wrong map[digest]*rate.Limiter // by network
	open  map[string]int           // tries that the API has said nothing of, by network
	found map[digest]struct{}      // tokens that the API knows
	watch map[digest]struct{}      // tokens with which a terminal was watched
	none  map[digest]refused       // tokens that it doesn't know
}

// refused is what the API said of a token that it doesn't know.
type refused struct {
	at    time.Time
	ended bool // it knew the token before: it was no guess
}

type digest = [sha256.Size]byte

func newRates() *rates {
	return &rates{
		asked: map[digest]*rate.Limiter{}, wrong: map[digest]*rate.Limiter{}, open: map[string]int{},
		found: map[digest]struct{}{}, watch: map[digest]struct{}{}, none: map[digest]refused{},
	}
}

// verdict is what becomes of a request before the API is asked.
type verdict int

const (
	goOn    verdict = iota
	tooMany         // for now
	unknown         // its token isn't one
)

// try is a request with a token of which it isn't known whether there is one. It counts as a wrong one from its
// start, so that many at once are no more than one after another, until the API has said that it isn't.
type try struct{ ended bool }

// allow reports whether a request may go on. One with a token that wasn't found before has a try then, which ends with
// answered or drop.
func (r *rates) allow(f *from) verdict {
	who := "address " + network(f.address)
	if f.token != "" {
		who = "token " + f.token
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !limiter(r.asked, who, perSecond, atOnce).Allow() {
		return tooMany
	}
	return r.trying(f)
}

// tries is allow for a request of a page, of which there are many: it holds wrong tokens alone to a rate.
func (r *rates) tries(f *from) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trying(f)
}

// port takes a request for a port of a session, by its token or cookie.
func (r *rates) port(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return limiter(r.asked, "port "+text, portsPerSecond, portsAtOnce).Allow()
}

// looks takes a request without a token that has the gateway ask for something.
func (r *rates) looks(address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return limiter(r.asked, "address "+network(address), perSecond, atOnce).Allow()
}

// trying takes a try of a request's token; r.mu is locked.
func (r *rates) trying(f *from) verdict {
	if f.token == "" {
		return goOn
	}
	token := sha256.Sum256([]byte(f.token))
	_, found := r.found[token]
	_, watched := r.watch[token]
	if found || watched {
		return goOn
	}
	none := r.none[token]
	if time.Since(none.at) < wrongFor {
		return unknown
	}
	if none.ended {
		return goOn
	}
	of := network(f.address)
	if limiter(r.wrong, of, wrongPerSecond, wrongAtOnce).Tokens() < float64(r.open[of]+1) {
		return tooMany
	}
	r.open[of]++
	f.try = &try{}
	return goOn
}

// answered takes whether the API knows the token of a request.
func (r *rates) answered(f from, known bool) {
	token := sha256.Sum256([]byte(f.token))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(f)
	if known {
		remember(r.found, token)
		delete(r.none, token)
		return
	}
	last := r.none[token]
	_, found := r.found[token]
	_, watched := r.watch[token]
	delete(r.found, token)
	delete(r.watch, token)
	if len(r.none) >= maxRates {
		clear(r.none)
	}
	now := refused{at: time.Now(), ended: last.ended || found || watched}
	r.none[token] = now
	if !now.ended && now.at.Sub(last.at) >= wrongFor {
		limiter(r.wrong, network(f.address), wrongPerSecond, wrongAtOnce).Allow()
	}
}

// watches takes that the API knows the token of a request as one that watches. It is no token for anything else, so
// it isn't found; but when it has ended it was no guess of those who watched.
func (r *rates) watches(f from) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(f)
	token := sha256.Sum256([]byte(f.token))
	remember(r.watch, token)
	delete(r.none, token)
}

// remember keeps a token among those of a kind.
func remember(all map[digest]struct{}, token digest) {
	if len(all) >= maxRates {
		clear(all)
	}
	all[token] = struct{}{}
}

// knows reports whether the API knew a token when it was asked last.
func (r *rates) knows(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.found[sha256.Sum256([]byte(token))]
	return found
}

// drop ends a try that the API was never asked about.
func (r *rates) drop(f from) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(f)
}

// end ends a request's try, once; r.mu is locked.
func (r *rates) end(f from) {
	if f.try == nil || f.try.ended {
		return
	}
	f.try.ended = true
	of := network(f.address)
	if r.open[of]--; r.open[of] <= 0 {
		delete(r.open, of)
	}
}

// network is whose an address is: of IPv6 one client has 2^64 of them.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
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
