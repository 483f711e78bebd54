package lease

import "github.com/diapause/diapause/events/lease/term"

// Clock and Renewal are those of package term, for who holds or observes leases.
type (
	Clock   = term.Clock
	Renewal = term.Renewal
)

// Now reads the clock that leases are told by.
func Now() Clock { return term.Now() }
