package shim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hostPID finds the process with pid within the session whose init is init, and
// returns its pid on the host; 0 if there is none.
func hostPID(init, pid int) (int, error) {
	if pid == 1 {
		return init, nil
	}
	// All processes of the session are its init's children, or below them.
	for _, p := range descendants(init) {
		if within(p) == pid {
			return p, nil
		}
	}
	return 0, fmt.Errorf("process %d of the session is gone", pid)
}

// descendants lists the processes below pid.
func descendants(pid int) []int {
	var all []int
	for _, child := range children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// children lists those of all threads of a process.
func children(pid int) []int {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it ended meanwhile
	}
	var all []int
	for _, t := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// within gives the pid of a process in its own pid namespace, 0 if it is gone.
func within(pid int) int {
	n, _ := strconv.Atoi(lastField(statusLine(pid, "NSpid:")))
	return n
}

func lastField(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// statusLine gives the rest of one line of /proc/PID/status.
func statusLine(pid int, name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return rest
		}
	}
	return ""
}
