package tree

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the sum of the bytes that the processes hold in memory, where a page
// that several of them share counts once between them.
//
// The kernel walks their page tables for that (about 10 ms a gigabyte), so it is
// not for a tight loop.
func Memory(pids []int) (int64, error) { return sum(pids, "Pss:") }

// Dumpable is like Memory, with what was swapped out: what a dump of them all would
// bring into memory, at most.
func Dumpable(pids []int) (int64, error) { return sum(pids, "Pss:", "SwapPss:") }

func sum(pids []int, lines ...string) (int64, error) {
	var sum int64
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		for _, name := range lines {
			n, err := kilobytes(string(b), name)
			if err != nil {
				return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
			}
			sum += n
		}
	}
	return sum, nil
}

// kilobytes finds the bytes of a line like "Pss: 1234 kB". A zombie has no such
// line, nor memory.
func kilobytes(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, nil
}
