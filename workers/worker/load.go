package worker

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// loadEvery is how often the host's load is read. It is told when it has changed, so
// that a quiet host says nothing.
const loadEvery = 2 * time.Second

// told is what was last said of the host.
type told struct {
	load     schemas.HostLoad
	sessions int
}

// watchLoad tells the fleet how full this host is, whenever that has changed.
func (w *Worker) watchLoad(ctx context.Context) error {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last told
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		load, err := w.Load()
		if err != nil {
			w.Log.Warn("the host's load can't be read: it is suspended for nothing but idleness here", "err", err)
			return nil
		}
		now := told{load, w.observedCount()}
		if !differs(last, now) {
			continue
		}
		if err := w.announce(ctx, now.sessions); err == nil {
			last = now
		} else if ctx.Err() == nil {
			w.Log.Warn("host not announced", "err", err)
		}
	}
}

// differs reports whether a load is worth a word.
func differs(last, now told) bool {
	moved := math.Abs(float64(last.load.AvailableBytes - now.load.AvailableBytes))
	return last.sessions != now.sessions || last.load.MemoryBytes != now.load.MemoryBytes ||
		moved > 0.02*float64(now.load.MemoryBytes) || math.Abs(last.load.Pressure-now.load.Pressure) > 0.02
}

// MachineLoad reads how full this machine is. A kernel without PSI counts as one where
// nobody waits.
func MachineLoad() (schemas.HostLoad, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return schemas.HostLoad{}, fmt.Errorf("read the machine's memory: %w", err)
	}
	psi, err := os.ReadFile("/proc/pressure/memory")
	if err != nil {
		psi = nil
	}
	return parseLoad(string(info), string(psi))
}

func parseLoad(meminfo, psi string) (l schemas.HostLoad, err error) {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemTotal:" && f[0] != "MemAvailable:" {
			continue
		}
		kb, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return l, fmt.Errorf("read the machine's memory: %q: %w", line, err)
		}
		if f[0] == "MemTotal:" {
			l.MemoryBytes = kb << 10
		} else {
			l.AvailableBytes = kb << 10
		}
	}
	if l.MemoryBytes == 0 {
		return l, fmt.Errorf("read the machine's memory: /proc/meminfo has no MemTotal")
	}
	some, _, _ := strings.Cut(psi, "\n")
	for _, f := range strings.Fields(some) {
		if percent, ok := strings.CutPrefix(f, "avg10="); ok {
			if p, err := strconv.ParseFloat(percent, 64); err == nil {
				l.Pressure = p / 100
			}
		}
	}
	return l, nil
}
