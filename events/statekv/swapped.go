package statekv

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// Swapped is how one swap went, for who counts them.
type Swapped struct {
	Before Versioned
	After  Versioned // the zero one after an error
	Type   schemas.TransitionType
	Took   time.Duration
	Err    error
}
