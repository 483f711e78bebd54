package schemas

import "fmt"

// QueuePlace says where an operation stands that waits for others of its host, or a session that
// waits for a host.
type QueuePlace struct {
	Place int    `json:"place"` // 1 goes next
	Of    int    `json:"of"`    // how many wait; of sessions, those that need the same
	Limit string `json:"limit"` // that the first of them waits for: LimitRoom, or as in --operations: "count=4", "memory=1G"
	// Reason is why no host has room for a session that waits for one.
	Reason string `json:"reason,omitempty"`
}

// LimitRoom is what a session waits for that has no host.
const LimitRoom = "room"

// String gives it in words: "2nd of 5, waiting for memory=1G".
func (q QueuePlace) String() string {
	if q.Reason != "" {
		return fmt.Sprintf("%s of %d, waiting for %s: %s", ordinal(q.Place), q.Of, q.Limit, q.Reason)
	}
	return fmt.Sprintf("%s of %d, waiting for %s", ordinal(q.Place), q.Of, q.Limit)
}

// Standing is the place alone, in words: "2nd of 5".
func (q QueuePlace) Standing() string { return fmt.Sprintf("%s of %d", ordinal(q.Place), q.Of) }

func ordinal(n int) string {
	ending := "th"
	if n%100/10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprint(n, ending)
}
