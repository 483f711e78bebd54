package stream

import (
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Counts are what came in on the activity stream. Counting is an atomic addition,
// reading is safe at any time.
type Counts struct {
	activity, events, skewed, gaps atomic.Uint64
	subject, kind, payload, big    atomic.Uint64
	strangers, forgotten           atomic.Uint64
	lastBad                        atomic.Pointer[schemas.Unreadable]
}

// Hear counts what was heard.
func (c *Counts) Hear(h Heard) {
	switch {
	case h.CaughtUp, !h.Through.IsZero(), h.Unproved != nil:
	case h.Gap:
		c.gaps.Add(1)
	case h.Bad != nil:
		c.bad(h.Bad)
	default:
		c.activity.Add(1)
		if h.Event != nil {
			c.events.Add(1)
		}
		if h.Skewed {
			c.skewed.Add(1)
		}
	}
}

func (c *Counts) bad(err error) {
	why := schemas.WhyUnreadable(err)
	switch why {
	case schemas.BadKind:
		c.kind.Add(1)
	case schemas.BadPayload:
		c.payload.Add(1)
	case schemas.BadSize:
		c.big.Add(1)
	default:
		c.subject.Add(1)
	}
	c.lastBad.Store(&schemas.Unreadable{Why: why, Text: schemas.Shown(err.Error()), At: time.Now().UTC()})
}

// Stranger counts a session that is heard of and has no record; forgot says that an
// earlier one made room for it.
func (c *Counts) Stranger(forgot bool) {
	c.strangers.Add(1)
	if forgot {
		c.forgotten.Add(1)
	}
}

// Now gives the counts.
func (c *Counts) Now() schemas.Intake {
	return schemas.Intake{
		Activity: c.activity.Load(), CloudEvents: c.events.Load(), Skewed: c.skewed.Load(), Gaps: c.gaps.Load(),
		BadSubject: c.subject.Load(), UnknownKind: c.kind.Load(), BadPayload: c.payload.Load(), TooBig: c.big.Load(),
		Strangers: c.strangers.Load(), Forgotten: c.forgotten.Load(), LastBad: c.lastBad.Load(),
	}
}
