package sense

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// cpuFloor is the share of one core above which a tree counts as working. An
// interpreter that wakes up twice a second stays well below it, a compiler far
// above.
const cpuFloor = 0.05

// cpuSpan is the least time between two looks that tells a share. In a few milliseconds after a
// start or a resume any tree uses a whole core.
const cpuSpan = 500 * time.Millisecond

// sign is one reason to call a session used.
type sign struct {
	kind   schemas.Kind
	key    string
	reason string
}

// signs says what two looks at a session tell of its use.
func signs(last, next sighting) []sign {
	var out []sign
	if span := next.at.Sub(last.at); span >= cpuSpan && next.seen.CPU > last.seen.CPU {
		if share := float64(next.seen.CPU-last.seen.CPU) / float64(span); share > cpuFloor {
			out = append(out, sign{schemas.KindBusy, "cpu", "its processes use the CPU"})
		}
	}
	if next.seen.Foreground != "" {
		out = append(out, sign{schemas.KindBusy, "foreground", next.seen.Foreground + " runs in its terminal"})
	}
	if next.seen.Execs > 0 {
		out = append(out, sign{schemas.KindBusy, "exec", "a command started by exec runs"})
	}
	if next.seen.Inbound > 0 {
		out = append(out, sign{schemas.KindPresence, "tcp", "connections from outside are open"})
	}
	return out
}

// report publishes leases of three looks' length, renewed at every other look.
func (s *Sensor) report(ctx context.Context, v statekv.Versioned, signs []sign, look sighting) {
	ttl := 3 * s.Every
	for _, sg := range signs {
		key := string(sg.kind) + "." + sg.key
		if look.at.Sub(look.leases[key]) < ttl/2 {
			continue
		}
		a := schemas.Activity{TTL: schemas.Duration(ttl), Reason: sg.reason, By: "worker@" + string(s.Host)}
		if _, err := s.Bus.Activity(ctx, v.Name(), sg.kind, sg.key, a); err != nil {
			s.Log.Warn("could not publish what was observed", v.Logged("err", err)...)
			continue
		}
		s.mu.Lock()
		look.leases[key] = look.at
		s.mu.Unlock()
	}
}
