package schemas

import "fmt"

// QueuePlace says where an operation stands that waits for others of its host.
type QueuePlace struct {
	Place int    `json:"place"` // 1 goes next
	Of    int    `json:"of"`    // how many wait
	Limit string `json:"limit"` // that the first of them waits for, as in --operations: "count=4", "memory=1G"
}

// String gives it in words: "2nd of 5, waiting for memory=1G".
func (q QueuePlace) String() string {
	return fmt.Sprintf("%s of %d, waiting for %s", ordinal(q.Place), q.Of, q.Limit)
}

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
