package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Used is what the daemon and one session's shim hold of the machine.
type Used struct {
	Up, Shim Holding
}

// Holding is what one process holds.
type Holding struct {
	Memory  int64 // bytes: resident, without its files, and its share of what it shares
	FDs     int
	Threads int
	CPU     time.Duration // since it started
}

// Used looks at the daemon and at the shim of the session, which has to run.
func (s *Session) Used(ctx context.Context) (Used, error) {
	pid, err := s.Shim(ctx)
	if err != nil {
		return Used{}, err
	}
	var u Used
	var errs [2]error
	u.Up, errs[0] = HoldingOf(s.d.Pid())
	u.Shim, errs[1] = HoldingOf(pid)
	return u, errors.Join(errs[:]...)
}

// Pid is the daemon's process.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Data is the daemon's data directory.
func (d *Daemon) Data() string { return d.data }

// Host is the daemon's name for this machine, "" before it is ready.
func (d *Daemon) Host() string { return d.host() }

// Shim is the process that holds the running session, as it writes down itself.
func (s *Session) Shim(ctx context.Context) (int, error) {
	var v schemas.View
	if err := s.d.ask(ctx, &v, "show", s.Name); err != nil {
		return 0, err
	}
	b, err := os.ReadFile(filepath.Join(s.d.data, "run", string(v.UID)+".json"))
	if err != nil {
		return 0, fmt.Errorf("find the shim of %s: %w", s.Name, err)
	}
	var told struct {
		Shim int `json:"shim"`
	}
	if err := json.Unmarshal(b, &told); err != nil || told.Shim <= 1 {
		return 0, fmt.Errorf("find the shim of %s in %q: %w", s.Name, b, err)
	}
	return told.Shim, nil
}

// HoldingOf looks at one process.
func HoldingOf(pid int) (Holding, error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return Holding{}, fmt.Errorf("count descriptors: %w", err)
	}
	h := Holding{FDs: len(fds)}
	for _, part := range []string{"Pss_Anon", "Pss_Shmem"} { // the shims' program is in memory once for all
		n, err := kilobytes(pid, "smaps_rollup", part)
		if err != nil {
			return h, err
		}
		h.Memory += n
	}
	threads, err := line(pid, "status", "Threads")
	if err != nil {
		return h, err
	}
	if h.Threads, err = strconv.Atoi(threads); err != nil {
		return h, fmt.Errorf("read the threads of %d: %w", pid, err)
	}
	h.CPU, err = cpu(pid)
	return h, err
}

// line is one of a file of a process in /proc, without its name.
func line(pid int, file, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	if err != nil {
		return "", fmt.Errorf("read the %s of %d: %w", file, pid, err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("read the %s of %d: no %s", file, pid, name)
}

// cpu is what a process has used, to the nanosecond.
func cpu(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("read the CPU time of %d: no threads", pid)
	}
	var sum time.Duration
	for _, file := range tasks {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread ended
		}
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of %d: %w", pid, err)
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of %d: %w", pid, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// Peak is the most memory that a process had since it started, or ClearPeak.
func Peak(pid int) (int64, error) {
	return kilobytes(pid, "status", "VmHWM")
}

// ClearPeak has Peak begin from what the process has now.
func ClearPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("clear the peak of %d: %w", pid, err)
	}
	return nil
}

// kilobytes is such a line that counts them, in bytes.
func kilobytes(pid int, file, name string) (int64, error) {
	text, err := line(pid, file, name)
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s of %d: %w", name, pid, err)
	}
	return kb << 10, nil
}
