package image

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"
)

// cores tells whether the machine's cores were idle recently. It asks the kernel, since
// any process may use them (the store's server, if it is on this machine): how long a
// writer waits says nothing about them.
type cores struct {
	mu          sync.Mutex
	at          time.Time
	idle, total uint64 // ticks since the machine was started
	free        bool
}

// coresLook is how long a look at the cores is good for: some ticks of 10 ms.
const coresLook = 200 * time.Millisecond

// spare reports whether at least a quarter of all cores' time was unused lately.
// Before that is known, and where the kernel doesn't tell it, it wasn't.
func (c *cores) spare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.at) < coresLook {
		return c.free
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return false
	}
	idle, total := ticks(stat)
	if known := !c.at.IsZero(); known && total > c.total {
		c.free = (idle-c.idle)*4 >= total-c.total
	}
	c.at, c.idle, c.total = now, idle, total
	return c.free
}

// ticks reads the first line of /proc/stat: the time of all cores since the start,
// and how much of it was idle or waited for a disk, as proc_stat(5) has it.
func ticks(stat []byte) (idle, total uint64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	const idleField, waitField, last = 4, 5, 8
	for i, f := range bytes.Fields(line) {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil || i > last {
			continue // its name; guests, which are counted before
		}
		total += n
		if i == idleField || i == waitField {
			idle += n
		}
	}
	return idle, total
}
