package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// period is the window in which a share of processor time is given out, the
// kernel's own default.
const period = 100 * time.Millisecond

// minQuota is the smallest share of a period that the kernel takes.
const minQuota = time.Millisecond

// SetLimits replaces the limits of the group, also while it runs. A limit whose
// controller this machine lacks is an error that names it, and nothing is
// changed. Memory can't be set below what can't be reclaimed: the kernel's
// answer is EBUSY in version 1, and a kill in version 2.
func (g *Group) SetLimits(l Limits) error {
	if err := g.supports(l); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", g.name, err)
	}
	for _, set := range []func(Limits) error{g.setMemory, g.setCPU, g.setPids} {
		if err := set(l); err != nil {
			return fmt.Errorf("limit cgroup %s: %w", g.name, err)
		}
	}
	return nil
}

// supports reports what of the limits can't be had here, or makes no sense.
func (g *Group) supports(l Limits) error {
	if l.Memory < 0 || l.CPUs < 0 || l.Pids < 0 {
		return fmt.Errorf("a limit is below zero: %+v", l)
	}
	var errs []error
	for _, need := range []struct {
		controller string
		wanted     bool
	}{{memory, l.Memory > 0}, {cpu, l.CPUs > 0}, {pids, l.Pids > 0}} {
		if _, ok := g.h.layout.serves[need.controller]; need.wanted && !ok {
			errs = append(errs, fmt.Errorf("there is no %s controller (%s): %s",
				need.controller, g.h.describe(), fixFor(need.controller)))
		}
	}
	return errors.Join(errs...)
}

func (g *Group) setMemory(l Limits) error {
	dir, version, ok := g.serving(memory)
	if !ok {
		return nil
	}
	if version == 2 {
		return g.setMemoryV2(dir, l.Memory)
	}
	value := "-1"
	if l.Memory > 0 {
		value = strconv.FormatInt(l.Memory, 10)
	}
	plain := filepath.Join(dir, "memory.limit_in_bytes")
	swap := filepath.Join(dir, "memory.memsw.limit_in_bytes")
	if _, err := os.Stat(swap); err != nil { // a kernel without accounting of swap
		return write(plain, value)
	}
	// The sum with swap may never be the smaller one, so that the order depends
	// on whether the limit grows or shrinks.
	err := write(plain, value)
	if err == nil {
		return write(swap, value)
	}
	if errors.Is(err, syscall.EBUSY) { // the other order is no way out
		return err
	}
	if err := write(swap, value); err != nil {
		return err
	}
	return write(plain, value)
}

func (g *Group) setMemoryV2(dir string, limit int64) error {
	value, swap := "max", "max"
	if limit > 0 {
		value, swap = strconv.FormatInt(limit, 10), "0"
	}
	if err := write(filepath.Join(dir, "memory.max"), value); err != nil {
		return err
	}
	err := write(filepath.Join(dir, "memory.swap.max"), swap)
	if errors.Is(err, os.ErrNotExist) { // a kernel without swap
		return nil
	}
	return err
}

func (g *Group) setCPU(l Limits) error {
	dir, version, ok := g.serving(cpu)
	if !ok {
		return nil
	}
	quota := max(time.Duration(l.CPUs*float64(period)), minQuota).Microseconds()
	if version == 2 {
		value := "max"
		if l.CPUs > 0 {
			value = strconv.FormatInt(quota, 10)
		}
		return write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%s %d", value, period.Microseconds()))
	}
	value := "-1"
	if l.CPUs > 0 {
		value = strconv.FormatInt(quota, 10)
	}
	err := write(filepath.Join(dir, "cpu.cfs_quota_us"), value)
	if errors.Is(err, os.ErrNotExist) && l.CPUs == 0 { // a kernel without CFS_BANDWIDTH
		return nil
	}
	return err
}

func (g *Group) setPids(l Limits) error {
	dir, _, ok := g.serving(pids)
	if !ok {
		return nil
	}
	value := "max"
	if l.Pids > 0 {
		value = strconv.FormatInt(l.Pids, 10)
	}
	return write(filepath.Join(dir, "pids.max"), value)
}

// CPU is the processor time that the group has used since it was made, that of
// processes that have ended included.
func (g *Group) CPU() (time.Duration, error) {
	dir, version, ok := g.serving(cpuacct)
	switch {
	case !ok:
		return 0, g.unserved(cpuacct)
	case version == 2:
		n, err := g.counter(dir, "cpu.stat", "usage_usec")
		return time.Duration(n) * time.Microsecond, err
	default:
		n, err := g.counter(dir, "cpuacct.usage", "")
		return time.Duration(n), err
	}
}

// Memory is the bytes charged to the group: what its processes hold, and the
// cache of files that they read, which the kernel gives up under pressure.
func (g *Group) Memory() (int64, error) {
	dir, version, ok := g.serving(memory)
	switch {
	case !ok:
		return 0, g.unserved(memory)
	case version == 2:
		return g.counter(dir, "memory.current", "")
	default:
		return g.counter(dir, "memory.usage_in_bytes", "")
	}
}

// OOMKills counts the processes of the group that were killed because it had
// reached its memory limit, since it was made.
func (g *Group) OOMKills() (int64, error) {
	dir, version, ok := g.serving(memory)
	switch {
	case !ok:
		return 0, g.unserved(memory)
	case version == 2:
		return g.counter(dir, "memory.events", "oom_kill")
	default:
		return g.counter(dir, "memory.oom_control", "oom_kill")
	}
}

func (g *Group) unserved(controller string) error {
	return fmt.Errorf("read cgroup %s: there is no %s controller (%s): %s", g.name, controller, g.h.describe(), fixFor(controller))
}

// counter reads a file that is one number, or the line of key in a file of
// "key number" lines.
func (g *Group) counter(dir, file, key string) (int64, error) {
	b, err := readCounter(filepath.Join(dir, file))
	if err != nil {
		return 0, fmt.Errorf("read cgroup %s: %w", g.name, err)
	}
	n, err := keyed(string(b), key)
	if err != nil {
		return 0, fmt.Errorf("read %s of cgroup %s: %w", file, g.name, err)
	}
	return n, nil
}

// readCounter is os.ReadFile without a file that the runtime waits for, and half as many system
// calls: it is done for each session at each look.
func readCounter(path string) ([]byte, error) {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 512)
	for {
		n, err := retried(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		// The kernel gives these files whole, if they fit.
		if b = b[:len(b)+n]; len(b) < cap(b) {
			return b, nil
		}
		b = append(b, 0)[:len(b)]
	}
}

// retried makes a system call again that a signal has interrupted.
func retried(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// keyed finds the number of a key in a flat keyed file of the kernel's. An
// empty key is for a file that is one number.
func keyed(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case key == "" && len(fields) == 1:
			return strconv.ParseInt(fields[0], 10, 64)
		case len(fields) == 2 && fields[0] == key:
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no number for %q in %q", key, text)
}
