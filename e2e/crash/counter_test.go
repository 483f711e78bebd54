package crash

import (
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// program is what its sessions run.
var program = stack.Counting("0.02")

// counter follows one counting session over crashes.
type counter struct {
	name    string
	durable int // the least that it must have counted to
	uid     schemas.UID
}

func startCounter(t *testing.T, s *stack.Stack, name string) *counter {
	t.Helper()
	if _, err := s.Must("run", "--name", name, "--idle", "never", "--", "sh", "-c", program); err != nil {
		t.Fatal(err)
	}
	return &counter{name: name}
}

// check waits for the counter to count on, from no less than it had counted
// before, without a gap, and by one process on this machine.
func (c *counter) check(t *testing.T, s *stack.Stack) {
	t.Helper()
	first := -1
	for end := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		out, err := s.Must("logs", c.name)
		if err != nil {
			t.Fatal(err)
		}
		n := c.counted(t, out)
		if first < 0 {
			first = n
		}
		if n > first && n > c.durable {
			c.durable = n
			break
		}
		if time.Now().After(end) {
			t.Fatalf("session %s doesn't count on: %d, had counted to %d", c.name, n, c.durable)
		}
	}
	c.alone(t, s)
}

// counted reads how far it has counted.
func (c *counter) counted(t *testing.T, out string) int {
	t.Helper()
	n, err := stack.Counted(out)
	if err != nil {
		t.Fatalf("session %s: %v", c.name, err)
	}
	if n < c.durable {
		t.Fatalf("session %s went back to %d, it had counted to %d", c.name, n, c.durable)
	}
	return n
}

// alone checks that the session's tree is on the machine once.
func (c *counter) alone(t *testing.T, s *stack.Stack) {
	t.Helper()
	v, err := s.View(c.name)
	if err != nil {
		t.Fatal(err)
	}
	leaders := s.Leaders(v.UID)
	if leaders != 1 {
		t.Fatalf("session %s has %d trees on this machine", c.name, leaders)
	}
	if c.uid != "" && v.UID != c.uid {
		t.Fatalf("session %s is another one: %s, was %s", c.name, v.UID, c.uid)
	}
	c.uid = v.UID
}
