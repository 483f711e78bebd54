package gateway

import (
	"math"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
)

// A page's end that a client made up asks hosts for no more than the most.
func TestPageEndBoundsLines(t *testing.T) {
	t.Parallel()
	for _, same := range []int{1, hostLines - 21, hostLines - 20, math.MaxInt} {
		e := &pageEnd{Time: time.Unix(1, 0), Same: same}
		if n := e.bound(&attach.Search{}, 21); n < 21 || n > hostLines || e.passed != (same > hostLines-21) {
			t.Errorf("%d lines of the moment: %d are asked for, passed %v", same, n, e.passed)
		}
	}
}
