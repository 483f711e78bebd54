package sense

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// typed is what was last said of how many commands were typed in a session's terminal.
type typed struct {
	commands int64
	at       time.Time
}

// Of more than maxTyped commands it isn't said how many: no score counts that far. It isn't said more often than every typedEvery.
const (
	maxTyped   = 255
	typedEvery = 10 * time.Second
)

// next gives how many commands are to be told of at a time, if they are.
func (t typed) next(commands int64, now time.Time) (int64, bool) {
	commands = min(commands, maxTyped)
	return commands, commands > t.commands && now.Sub(t.at) >= typedEvery
}

// count says how many commands were typed in a session's recorded terminal: schedulers count them from what is published last, also
// one that comes later.
func (s *Sensor) count(ctx context.Context, v statekv.Versioned, look sighting) {
	commands, due := look.typed.next(look.seen.Commands, look.at)
	if !due {
		return
	}
	a := schemas.Activity{Commands: commands, By: "worker@" + string(s.Host)}
	if _, err := s.Bus.Activity(ctx, v.Name(), schemas.KindOutput, schemas.KeyCommands, a); err != nil {
		s.Log.Warn("could not publish how many commands were typed", v.Logged("err", err)...)
		return
	}
	s.said(v.UID, func(now *sighting) { now.typed = typed{commands, look.at} })
}
