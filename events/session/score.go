package session

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// Weights say what a session's score is made of: which of those on a full host is
// suspended first.
type Weights struct {
	Base     float64 `json:"base"`           // of every session
	IdleHour float64 `json:"idle_hour"`      // less for every hour that it is idle
	Command  float64 `json:"command"`        // more for every command that it was given
	Commands int     `json:"commands_count"` // of which so many count, 255 at most
	ByPerson float64 `json:"by_person"`      // more if a person made it
}

// DefaultWeights gives 100, less 10 for each idle hour, with 2 for each of at most a
// hundred commands, and 50 for a session that a person made.
func DefaultWeights() Weights {
	return Weights{Base: 100, IdleHour: 10, Command: 2, Commands: 100, ByPerson: 50}
}

// Score says how much a session matters at now, never less than 0: of those that may
// be suspended to make room the lowest goes first. Commands are counted from when its
// reader began to hear, since the stream keeps the last of each kind alone; those of a recorded terminal from its beginning, since the
// session's host says how many there were.
func (v *View) Score(w Weights, now time.Time) float64 {
	s := w.Base - w.IdleHour*max(now.Sub(v.IdleSince()), 0).Hours() + w.Command*float64(min(int(v.known.Commands), w.Commands))
	if v.Record.MadeBy == schemas.MadeByPerson {
		s += w.ByPerson
	}
	return max(s, 0)
}
