package ingress

import (
	"net"
	"slices"
	"sync"
	"time"
)

// A client that comes back by itself: an editor or an ssh of a laptop that was closed connects again and again, says
// who it is, and is gone. It is told from a person by what its connections before came to, see cameInVain.
const (
	vainTime  = time.Minute // a connection that lasted less,
	vainBytes = 8 << 10     // and of whose client less came than a handshake and a login take, was in vain
	vainAgo   = 15 * time.Minute
	vainUses  = 3 // so many in a row make the next one no activity of a session that runs,
	vainWakes = 2 // and so many that resumed it have the next one resume nothing
	// A laptop that wakes up for a moment tries for a moment. One that is open goes on: after that time it is let in.
	insistent = 2 * time.Minute
	pausing   = time.Minute // without an attempt: it has given up
)

// past is a connection that has ended.
type past struct {
	ended  time.Time
	lasted time.Duration
	sent   int64 // bytes, by the client
	woke   bool  // it resumed the session
}

func (p past) vain(now time.Time) bool {
	return p.lasted < vainTime && p.sent < vainBytes && now.Sub(p.ended) < vainAgo
}

// cameInVain reports whether a client comes back by itself, by its last connections, the latest last: if they were in vain
// a few times in a row. Where its connection would resume the session the bar is higher: only those count that resumed
// it, too, so that a person who runs one short command after another isn't turned away; and a client that insists, for
// so long, is let in.
func cameInVain(last []past, runs bool, insists time.Duration, now time.Time) bool {
	if !runs && insists >= insistent {
		return false
	}
	vain := 0
	for _, p := range slices.Backward(last) {
		if !p.vain(now) {
			return false
		}
		if runs || p.woke {
			vain++
		}
		if runs && vain == vainUses || !runs && vain == vainWakes {
			return true
		}
	}
	return false
}

// callers remembers the last connections of the clients of one port, by their addresses.
type callers struct {
	mu  sync.Mutex
	all map[string]*caller
}

// caller is one of them.
type caller struct {
	past        []past
	since, seen time.Time // when it began to connect again and again, and when it did last
}

// rememberedPast is how many connections of one client are remembered, rememberedCallers of how many clients.
const (
	rememberedPast    = 2 * vainUses
	rememberedCallers = 1000
)

func newCallers() *callers { return &callers{all: map[string]*caller{}} }

// who is the client of an address: its port changes.
func who(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// arrived gives the last connections of a client that connects now, and for how long it has been doing so.
func (c *callers) arrived(from string, now time.Time) (last []past, insists time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.of(from)
	if now.Sub(who.seen) > pausing {
		who.since = now
	}
	who.seen = now
	return slices.Clone(who.past), now.Sub(who.since)
}

// of gives a client, with mu held.
func (c *callers) of(from string) *caller {
	if c.all[from] == nil {
		if len(c.all) >= rememberedCallers {
			clear(c.all)
		}
		c.all[from] = &caller{}
	}
	return c.all[from]
}

func (c *callers) ended(from string, p past) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.of(from)
	all := append(who.past, p)
	who.past = all[max(0, len(all)-rememberedPast):]
}
