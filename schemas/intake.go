package schemas

import (
	"errors"
	"time"
)

// Stats are counts of the whole, as `diapause stats` prints them.
type Stats struct {
	Sessions map[State]int `json:"sessions"` // how many there are of each state
	Intake   Intake        `json:"intake"`
}

// Intake is what a scheduler heard since it started.
type Intake struct {
	Activity    uint64 `json:"activity"`     // messages that were activity
	CloudEvents uint64 `json:"cloud_events"` // of them, as CloudEvents
	Skewed      uint64 `json:"skewed"`       // of those, by a clock that is minutes off; it was not used
	Gaps        uint64 `json:"gaps"`         // times that nothing could be heard for a while
	BadSubject  uint64 `json:"bad_subject"`  // messages on no subject of an activity
	UnknownKind uint64 `json:"unknown_kind"` // of a kind that there isn't
	BadPayload  uint64 `json:"bad_payload"`  // with a payload that isn't one
	TooBig      uint64 `json:"too_big"`      // with a payload that is too large
	Strangers   uint64 `json:"strangers"`    // sessions without a record that were heard of
	Forgotten   uint64 `json:"forgotten"`    // of them, those that made room for others

	LastBad *Unreadable `json:"last_bad,omitempty"` // the last message that was no activity
}

// Unreadable says why a message isn't activity.
type Unreadable struct {
	Why  string    `json:"why"` // subject, kind, payload or size
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// The reasons why a message isn't activity.
const (
	BadSubject = "subject"
	BadKind    = "kind"
	BadPayload = "payload"
	BadSize    = "size"
)

// WhyUnreadable gives the reason of an error of ParseActivitySubject or ParseMessage.
func WhyUnreadable(err error) string {
	switch {
	case errors.Is(err, ErrKind):
		return BadKind
	case errors.Is(err, ErrPayload):
		return BadPayload
	case errors.Is(err, ErrTooBig):
		return BadSize
	}
	return BadSubject
}

// Shown makes a stranger's text fit to be shown: one line of bounded length, without
// control characters.
func Shown(text string) string { return shown(text, 256) }
