package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Freeze stops every process of the group where it is, without a signal, and
// returns when the kernel says that all are stopped. If ctx ends first, the
// error says so and the order to freeze stands, with some processes stopped:
// call Thaw or Kill next.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.order(true); err != nil {
		return fmt.Errorf("freeze cgroup %s: %w", g.name, err)
	}
	if err := g.settle(ctx); err != nil {
		return fmt.Errorf("freeze cgroup %s: %w", g.name, err)
	}
	return nil
}

// Settle waits until what was put into a frozen group has stopped, too. It is an error if the
// group was thawed meanwhile.
func (g *Group) Settle(ctx context.Context) error {
	if err := g.settle(ctx); err != nil {
		return fmt.Errorf("wait for cgroup %s to be frozen: %w", g.name, err)
	}
	return nil
}

// errThawed says that a group isn't ordered to freeze.
var errThawed = errors.New("it was thawed")

// settle waits until a group that was ordered to freeze is frozen.
func (g *Group) settle(ctx context.Context) error {
	ordered := time.Now()
	return poll(ctx, func() (bool, error) {
		frozen, err := g.State()
		if err != nil || frozen {
			return frozen, err
		}
		if on, err := g.ordered(); err != nil || !on {
			return false, cmp.Or(err, errThawed)
		}
		if time.Since(ordered) > 20*time.Millisecond {
			// Version 1 can miss a process that was starting, or about to stand still for
			// a signal; the order, given again, reaches it.
			ordered = time.Now()
			err = g.order(true)
		}
		return false, err
	})
}

// ordered reports whether the group is to be frozen, if it is so or not.
func (g *Group) ordered() (bool, error) {
	dir, version, _ := g.serving(freezer)
	file, off := "cgroup.freeze", "0"
	if version == 1 {
		file, off = "freezer.state", "THAWED"
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return false, fmt.Errorf("read state of cgroup %s: %w", g.name, err)
	}
	return strings.TrimSpace(string(b)) != off, nil
}

// Thaw lets the processes run on. It does nothing to a group that runs.
func (g *Group) Thaw() error {
	if err := g.order(false); err != nil {
		return fmt.Errorf("thaw cgroup %s: %w", g.name, err)
	}
	return nil
}

func (g *Group) order(freeze bool) error {
	dir, version, _ := g.serving(freezer)
	file, on, off := "cgroup.freeze", "1", "0"
	if version == 1 {
		file, on, off = "freezer.state", "FROZEN", "THAWED"
	}
	value := off
	if freeze {
		value = on
	}
	return write(filepath.Join(dir, file), value)
}

// State reports whether all processes of the group are frozen. On the way there
// it says no.
func (g *Group) State() (frozen bool, err error) {
	dir, version, _ := g.serving(freezer)
	file := "cgroup.events"
	if version == 1 {
		file = "freezer.state"
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return false, fmt.Errorf("read state of cgroup %s: %w", g.name, err)
	}
	if version == 1 {
		return strings.TrimSpace(string(b)) == "FROZEN", nil
	}
	n, err := keyed(string(b), "frozen")
	if err != nil {
		return false, fmt.Errorf("read state of cgroup %s: %w", g.name, err)
	}
	return n == 1, nil
}

// Kill ends every process of the group with SIGKILL, frozen ones too, and those
// that are started meanwhile, and returns when none is left (a zombie doesn't
// count). The group is thawed afterwards. If ctx ends first, the error names who
// is left. Others may kill the group at the same time.
func (g *Group) Kill(ctx context.Context) error {
	err := poll(ctx, func() (bool, error) {
		left, err := g.Pids()
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if err := g.killOnce(ctx, left); len(left) > 0 || err != nil {
			return false, err
		}
		return g.killHalf()
	})
	if err != nil {
		left, _ := g.Pids()
		return fmt.Errorf("kill cgroup %s (processes left: %v): %w", g.name, left, err)
	}
	return nil
}

// killOnce kills the processes that are in the group now. Without the kernel's own way to
// do it, the group is frozen first so that none can start another or leave
// its pid to a stranger between the list and the signal; a frozen process of
// version 1 dies when it is thawed.
func (g *Group) killOnce(ctx context.Context, left []int) error {
	dir, version, _ := g.serving(freezer)
	if version == 2 && len(left) > 0 {
		err := write(filepath.Join(dir, "cgroup.kill"), "1")
		if !errors.Is(err, fs.ErrNotExist) { // kernels before 5.14 lack it
			return errors.Join(err, g.order(false))
		}
	}
	if len(left) > 0 {
		brief, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		defer stop()
		err := g.Freeze(brief)
		switch {
		case errors.Is(err, errThawed), errors.Is(err, fs.ErrNotExist): // another caller kills it, too
			return nil
		case err != nil && brief.Err() == nil:
			return err
		}
		if err := g.signalAll(); err != nil {
			return errors.Join(err, g.order(false))
		}
	}
	return g.order(false)
}

// killHalf kills what is in the group in some hierarchies and not in the freezer's, as a process is
// whose mover was killed before it was done. It reports whether there is none.
func (g *Group) killHalf() (none bool, err error) {
	none = true
	for i := range g.h.layout.mounts {
		left, err := pidsBelow(g.dir(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("list processes of cgroup %s: %w", g.name, err)
		}
		for _, pid := range left {
			none = false
			if err := killMember(g.dir(i), pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("process %d: %w", pid, err)
			}
		}
	}
	return none, nil
}

// killMember kills a process if it is in a group: its pid may be a stranger's by now.
func killMember(dir string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := pidsBelow(dir); err != nil || !slices.Contains(now, pid) {
		return nil // the caller looks again
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

func (g *Group) signalAll() error {
	all, err := g.Pids()
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// poll asks until the answer is yes, an error, or the end of ctx. The kernel
// answers within a millisecond as a rule, so it asks often at first.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		done, err := ask()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
