package scheduler

import (
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// pulseFor is how long a session counts as in use by a machine after it said so: a page that is
// visible says that once a minute, and what is asked for by HTTP is asked for again and again.
const pulseFor = 75 * time.Second

// pulses remembers when sessions were last used in a way that is no lease, and isn't typing either:
// by heartbeats, HTTP requests, an agent. A session that is used like that is not there for the
// taking only because its last use is over. Those of the last pulseFor alone are remembered.
type pulses map[*tracked]time.Duration // since the loop began

// heard takes in a message of activity that counts.
func (p pulses) heard(t *tracked, m *session.Message, at, now time.Duration) {
	switch {
	case now-at >= pulseFor: // it was stored before this scheduler began
	case m.Source.Kind.Lease(), m.Source.Kind == schemas.KindInput, m.Source.Kind == schemas.KindExec:
	case m.Source.Kind == schemas.KindHTTP && m.Activity.Reason == schemas.ReasonEnsure: // who wanted it had it run, and uses it now or doesn't
	default:
		p[t] = max(at, p[t])
	}
}

// beats reports whether a session was used like that not long ago.
func (p pulses) beats(t *tracked, now time.Duration) bool {
	at, ok := p[t]
	return ok && now-at < pulseFor
}

// sweep forgets what was long ago.
func (p pulses) sweep(now time.Duration) {
	for t, at := range p {
		if now-at >= pulseFor {
			delete(p, t)
		}
	}
}
