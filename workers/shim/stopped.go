package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
)

// helpAttach lets criu attach to the processes that a signal has stopped, which
// it couldn't while they are frozen, too (cgroup.Group.Stopped). Each is moved
// out of the freezer when criu waits for it, and not before: criu wants to find
// it there. All who could continue it are frozen. The function that it gives
// moves them back.
func helpAttach(name schemas.Name, group, beside *cgroup.Group) (restore func() error, err error) {
	stopped, err := group.Stopped()
	if err != nil {
		return nil, fmt.Errorf("find the stopped processes of session %s: %w", name, err)
	}
	if len(stopped) == 0 {
		return func() error { return nil }, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- moveAttached(ctx, beside, stopped) }()
	return func() error {
		stop()
		errs := []error{<-done}
		for _, pid := range stopped {
			errs = append(errs, group.AddToFreezer(pid))
		}
		return errors.Join(errs...)
	}, nil
}

// staysFrozen reports an error unless the session is frozen still. What helpAttach moved
// back counts as frozen only when it has run to where it stands still.
func (d *dumper) staysFrozen() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	if err := d.group.Settle(ctx); err != nil {
		return fmt.Errorf("session %s didn't stay frozen through its dump: %w", d.name, err)
	}
	return nil
}

// settleLimit is how long processes that were moved into a frozen group may take to stand still.
const settleLimit = 10 * time.Second

// attachPoll is how often moveAttached looks whether criu has attached: there is no signal.
const attachPoll = time.Millisecond

// moveAttached moves each process when criu has attached to it, until ctx
// ends.
func moveAttached(ctx context.Context, beside *cgroup.Group, pids []int) error {
	for left := pids; ; {
		var next []int
		for _, pid := range left {
			if !attachedTo(pid) {
				next = append(next, pid)
				continue
			}
			if err := beside.AddToFreezer(pid); err != nil {
				return err
			}
		}
		if left = next; len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(attachPoll):
		}
	}
}

// attachedTo reports whether one of the threads is traced of a process.
func attachedTo(pid int) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return false
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && bytes.Contains(b, []byte("\nTracerPid:\t")) && !bytes.Contains(b, []byte("\nTracerPid:\t0\n")) {
			return true
		}
	}
	return false
}
