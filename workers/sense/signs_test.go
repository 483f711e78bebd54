package sense

import (
	"testing"
	"time"

	"github.com/diapause/diapause/workers/driver"
)

// A share of the CPU counts only over a span that is long enough to tell one.
func TestCPUSpan(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for _, c := range []struct {
		span, cpu time.Duration
		busy      bool
	}{
		{3 * time.Millisecond, 3 * time.Millisecond, false},
		{cpuSpan - 1, cpuSpan, false},
		{cpuSpan, cpuSpan, true},
		{5 * time.Second, 200 * time.Millisecond, false},
		{5 * time.Second, time.Second, true},
		{-time.Second, time.Second, false}, // the clock was set back
	} {
		last := sighting{at: begin, seen: driver.Observation{CPU: time.Minute}}
		next := sighting{at: begin.Add(c.span), seen: driver.Observation{CPU: time.Minute + c.cpu}}
		if got := len(signs(last, next)) > 0; got != c.busy {
			t.Errorf("%v of CPU in %v: busy is %t", c.cpu, c.span, got)
		}
	}
}
