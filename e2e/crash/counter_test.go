package crash

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// program counts, in memory and in a file, and prints what it has counted. Both
// must agree at each step: a memory of one moment with the files of another is
// told at once. The last line that it printed is never taken back.
const program = `i=0; echo 0 >/tmp/count
while :; do
	read n </tmp/count
	[ "$n" = "$i" ] || { echo "torn: $i in memory, $n in the file"; exit 1; }
	i=$((i+1)); echo $i >/tmp/count; echo $i
	sleep 0.02
done`

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
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
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

// counted reads the numbers, which must follow each other from one.
func (c *counter) counted(t *testing.T, out string) int {
	t.Helper()
	n := 0
	for _, word := range strings.Fields(out[:strings.LastIndex(out, "\n")+1]) {
		i, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("session %s printed:\n%s", c.name, out)
		}
		if n != 0 && i != n+1 || n == 0 && i != 1 {
			t.Fatalf("session %s: %d follows %d", c.name, i, n)
		}
		n = i
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
