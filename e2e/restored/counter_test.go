package restored

import (
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// counter follows one counting session.
type counter struct {
	name string
	uid  schemas.UID
	n    int // the least that it must have counted to
}

// check waits until the session counts on: without a gap, from no less than before,
// as one process tree on this machine, and the same session as ever.
func (c *counter) check(l *life) {
	l.t.Helper()
	first := -1
	for end := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		n := c.counted(l, l.must("logs", c.name))
		if first < 0 {
			first = n
		}
		if n > first && n > c.n {
			c.n = n
			break
		}
		if time.Now().After(end) {
			l.t.Fatalf("session %s doesn't count on: %d, had counted to %d", c.name, n, c.n)
		}
	}
	v, err := l.View(c.name)
	if err != nil {
		l.t.Fatal(err)
	}
	if n := l.Leaders(v.UID); n != 1 {
		l.t.Fatalf("session %s has %d trees on this machine", c.name, n)
	}
	if c.uid != "" && v.UID != c.uid {
		l.t.Fatalf("session %s is another one: %s, was %s", c.name, v.UID, c.uid)
	}
	c.uid = v.UID
}

func (c *counter) counted(l *life, out string) int {
	l.t.Helper()
	n, err := stack.Counted(out)
	if err != nil {
		l.t.Fatalf("session %s: %v", c.name, err)
	}
	if n < c.n {
		l.t.Fatalf("session %s went back to %d, it had counted to %d", c.name, n, c.n)
	}
	return n
}
