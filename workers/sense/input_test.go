package sense

import (
	"testing"
	"time"

	"github.com/diapause/diapause/workers/driver"
)

// Input on a desktop is said once, and not while the session is being suspended.
func TestInputDue(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for what, c := range map[string]struct {
		seen, said time.Time
		busy, due  bool
	}{
		"none":                        {},
		"the first":                   {seen: at, due: true},
		"said already":                {seen: at, said: at},
		"more since":                  {seen: at.Add(time.Second), said: at, due: true},
		"while it is being suspended": {seen: at, busy: true},
		"none since it came here":     {said: at},
	} {
		look := sighting{seen: driver.Observation{Input: c.seen}, input: c.said}
		if due := inputDue(look, c.busy); due != c.due {
			t.Errorf("%s: due is %t", what, due)
		}
	}
}
