package triggers

import "time"

// The pauses between the checkpoints of one session.
const (
	// share: a session may stand still for one part in so many.
	share = 5
	// least is the shortest pause, and longest the longest after failures.
	least, longest = time.Second, 5 * time.Minute
)

// pace says how long a session is left alone.
type pace struct{ failures int }

// after gives the pause that follows an outcome.
func (p *pace) after(o Outcome) time.Duration {
	rest := max(least, (share-1)*o.Frozen)
	if o.Word != Failed {
		p.failures = 0
		return rest
	}
	p.failures = min(p.failures+1, 16)
	return min(max(rest, least<<p.failures), longest)
}
