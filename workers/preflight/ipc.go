package preflight

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// systemV counts what the IPC namespace of a process has.
func systemV(pid int) (found SystemV, err error) {
	err = thread.Discard(func() error {
		theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/ipc", pid))
		if err != nil {
			return err
		}
		defer theirs.Close()
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWIPC); err != nil {
			return fmt.Errorf("enter IPC namespace: %w", err)
		}
		segments, err := os.ReadFile("/proc/sysvipc/shm") // of the namespace of who opens it
		if err != nil {
			return err
		}
		sets, err := os.ReadFile("/proc/sysvipc/sem")
		found = parseSystemV(string(segments), string(sets))
		return err
	})
	return found, err
}

// destroyed is SHM_DEST: the segment goes with its last user.
const destroyed = 0o1000

// parseSystemV reads the tables of /proc/sysvipc, which begin with a line of titles.
func parseSystemV(segments, sets string) SystemV {
	found := SystemV{Sets: max(strings.Count(sets, "\n")-1, 0)}
	for line := range strings.Lines(segments) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		if mode, err := strconv.ParseUint(fields[2], 8, 32); err == nil && mode&destroyed != 0 {
			found.Removed++
		}
	}
	return found
}

// wallClockTimers counts a process's POSIX timers of the wall clock. Where the kernel doesn't
// list them there are none.
func wallClockTimers(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", pid))
	return strings.Count(string(b), "ClockID: 0\n")
}
