package upgrade

import "github.com/diapause/diapause/e2e/stack"

// counter follows a session that counts.
type counter struct {
	name string
	n    int // what it has counted to at least
	pid  int // of its first process, as long as it isn't suspended
}

// start starts a session that counts.
func (i *installation) start(name string, flags ...string) *counter {
	i.t.Helper()
	args := append([]string{"run", "--name", name, "--idle", "never"}, flags...)
	i.must(append(args, "--", "sh", "-c", stack.Counting("0.05"))...)
	return &counter{name: name}
}

// goesOn waits until a session counts on, without a gap and by one process tree. A session
// that wasn't suspended since the last time is by the same process.
func (c *counter) goesOn(i *installation, restored bool) {
	i.t.Helper()
	from := max(c.n, c.counted(i))
	i.until("session "+c.name+" counts on", func() bool { c.n = c.counted(i); return c.n > from })
	v := i.view(c.name)
	if n := i.Leaders(v.UID); n != 1 {
		i.t.Errorf("session %s has %d process trees", c.name, n)
	}
	i.until("the host knows the process of session "+c.name, func() bool { v = i.view(c.name); return v.PID != 0 })
	if c.pid != 0 && !restored && v.PID != c.pid {
		i.t.Errorf("session %s has process %d, had %d", c.name, v.PID, c.pid)
	}
	c.pid = v.PID
}

// counted reads how far a session has counted.
func (c *counter) counted(i *installation) int {
	i.t.Helper()
	n, err := stack.Counted(i.must("logs", c.name))
	if err != nil {
		i.t.Fatalf("session %s: %v", c.name, err)
	}
	if n < c.n {
		i.t.Fatalf("session %s went back to %d from %d", c.name, n, c.n)
	}
	return n
}
