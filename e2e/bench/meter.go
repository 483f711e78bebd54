package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// used is what something took of the machine, and of whom it wasn't counted: the
// server's own CPU time.
type used struct {
	Took time.Duration
	CPU  time.Duration // of all cores, the server's left out
	Peak int64         // bytes of memory that were available before and weren't at the worst moment
}

// meter measures the whole machine, so that nothing is forgotten on either side:
// neither criu nor the kernel's part, nor images that are held in memory.
type meter struct {
	server    int // pid
	begin     time.Time
	cpu       time.Duration
	available int64
	least     chan int64
	stop      chan struct{}
}

const sampled = 10 * time.Millisecond

func startMeter(server int) (*meter, error) {
	m := &meter{server: server, least: make(chan int64), stop: make(chan struct{})}
	var err error
	if m.cpu, err = busy(server); err != nil {
		return nil, err
	}
	if m.available, err = available(); err != nil {
		return nil, err
	}
	go m.sample(m.available)
	m.begin = time.Now()
	return m, nil
}

// sample follows the available memory until stop is closed.
func (m *meter) sample(least int64) {
	tick := time.NewTicker(sampled)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n, err := available(); err == nil {
				least = min(least, n)
			}
		case <-m.stop:
			m.least <- least
			return
		}
	}
}

func (m *meter) end() (used, error) {
	u := used{Took: time.Since(m.begin)}
	close(m.stop)
	u.Peak = m.available - <-m.least
	cpu, err := busy(m.server)
	u.CPU = cpu - m.cpu
	return u, err
}

const tick = time.Second / 100 // of the kernel's accounting to user space

// busy is the CPU time that everybody but a process and its threads has used.
func busy(but int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq
	if len(f) < 8 {
		return 0, fmt.Errorf("read the CPU time: %q", line)
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", but))
	if err != nil {
		return 0, fmt.Errorf("read the server's CPU time: %w", err)
	}
	s := strings.Fields(string(own[strings.LastIndexByte(string(own), ')')+1:]))
	if len(s) < 13 {
		return 0, fmt.Errorf("read the server's CPU time: %q", own)
	}
	var sum int64
	for _, text := range []string{f[1], f[2], f[3], f[6], f[7], "-" + s[11], "-" + s[12]} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
}

// available is the memory that could be had without swapping.
func available() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the available memory: %w", err)
	}
	_, rest, _ := strings.Cut(string(b), "MemAvailable:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0, fmt.Errorf("/proc/meminfo doesn't say what is available")
	}
	kb, err := strconv.ParseInt(f[0], 10, 64)
	return kb << 10, err
}
