package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Stopped lists the processes of a frozen group of version 1 that were stopped
// by a signal before (SIGSTOP, Ctrl-Z). Who attaches to a process that is both
// stopped and frozen, as criu does, waits for it to do something, for ever: it
// must be moved then to a group that isn't frozen, by AddToFreezer, and back
// before the thaw. Version 2 has no such trouble, and none are listed.
func (g *Group) Stopped() ([]int, error) {
	if _, version, _ := g.serving(freezer); version != 1 {
		return nil, nil
	}
	all, err := g.Pids()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(pid int) bool { return !stopped(pid) }), nil
}

// AddToFreezer puts a process into the group in the hierarchy that freezes, and
// no other. One that is gone is no error.
func (g *Group) AddToFreezer(pid int) error {
	err := write(filepath.Join(g.FreezerPath(), "cgroup.procs"), strconv.Itoa(pid))
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("put process %d into the freezer of cgroup %s: %w", pid, g.name, err)
	}
	return nil
}

// stopped reports whether a signal has stopped a process, or one of its threads,
// which by then stands for all. A frozen one says so only by where it waits;
// kernels before 6.1 leave it its state.
func stopped(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false // it is gone
	}
	for _, t := range threads {
		where, err := os.ReadFile(filepath.Join(dir, t.Name(), "wchan"))
		if err == nil && string(where) == "do_signal_stop" {
			return true
		}
		b, err := os.ReadFile(filepath.Join(dir, t.Name(), "stat"))
		if err == nil && strings.HasPrefix(string(b[bytes.LastIndexByte(b, ')')+1:]), " T") {
			return true
		}
	}
	return false
}
