package preflight

import (
	"fmt"
	"os"
	"slices"
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
		if err != nil {
			return err
		}
		found = parseSystemV(string(segments), string(sets))
		found.Queues, err = messageQueues()
		return err
	})
	return found, err
}

// messageQueues lists the POSIX message queues of the IPC namespace that this thread is in. A
// kernel without them has none.
func messageQueues() ([]string, error) {
	context, err := unix.Fsopen("mqueue", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, nil
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("open message queues: %w", err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open message queues: %w", err)
	}
	fd, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	unix.Close(mount)
	if err != nil {
		return nil, fmt.Errorf("open message queues: %w", err)
	}
	dir := os.NewFile(uintptr(fd), "message queues")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
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

// groupNice is the nice value of the group of the scheduler that a session's leader is in, by
// /proc/PID/autogroup: "/autogroup-25 nice 5".
func groupNice(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pid))
	_, value, _ := strings.Cut(string(b), " nice ")
	n, _ := strconv.Atoi(strings.TrimSpace(value))
	return n
}

// wallClockTimers counts a process's POSIX timers of the wall clock. Where the kernel doesn't
// list them there are none.
func wallClockTimers(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", pid))
	return strings.Count(string(b), "ClockID: 0\n")
}
