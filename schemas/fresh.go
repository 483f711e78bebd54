package schemas

import "time"

// OnResume says what happens to a suspended session whose image can't be resumed.
type OnResume string

// The answers to an image that can't be resumed; none is ResumeKeep, or what the policy says.
const (
	ResumeKeep  OnResume = "keep"  // it stays suspended, and each access tries again
	ResumeFresh OnResume = "fresh" // once that is proven, the next access starts its command again; the image is kept
)

// Known reports whether it is one of the answers, or none.
func (o OnResume) Known() bool { return o == "" || o == ResumeKeep || o == ResumeFresh }

// Cause is why an image can't be resumed, where that is proven.
type Cause string

// The causes that are proven. What is away for a while proves nothing.
const (
	CauseMissing Cause = "missing" // the store answered, has the session's keys, and hasn't its image
	CauseDamaged Cause = "damaged" // a part of the image is missing, or isn't what was written
	CauseRefused Cause = "refused" // CRIU refused it on every host that fits
)

// Phrase says the cause for a person.
func (c Cause) Phrase() string {
	switch c {
	case CauseMissing:
		return "its snapshot is missing from the store"
	case CauseDamaged:
		return "its snapshot is damaged"
	case CauseRefused:
		return "its snapshot can't be restored on any host that fits"
	}
	return ""
}

// Notice says that a session was restarted without its memory, until a person dismisses it.
type Notice struct {
	Text   string    `json:"text"` // one line for a person
	Cause  Cause     `json:"cause"`
	Detail string    `json:"detail,omitempty"` // the technical cause
	At     time.Time `json:"at"`
	// Kept are the snapshots that the session didn't go on from, the oldest first: they stay
	// until the notice is dismissed.
	Kept []Head `json:"kept"`
}

// MaxKept bounds the snapshots of a notice. A session that has so many isn't started clean again by
// itself until a person has looked.
const MaxKept = 8
