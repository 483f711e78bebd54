package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// helpAttach lets criu attach to the processes that a signal has stopped, which
// it couldn't while they are frozen, too (cgroup.Group.Stopped). Each is moved
// out of the freezer when criu waits for it, and not before: criu wants to find
// it there. All who could continue it are frozen. The function that it gives
// moves them back.
func (s *session) helpAttach() (restore func() error, err error) {
	stopped, err := s.group.Stopped()
	if err != nil {
		return nil, fmt.Errorf("find the stopped processes of session %s: %w", s.setup.Name, err)
	}
	if len(stopped) == 0 {
		return func() error { return nil }, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.moveAttached(ctx, stopped) }()
	return func() error {
		stop()
		errs := []error{<-done}
		for _, pid := range stopped {
			errs = append(errs, s.group.AddToFreezer(pid))
		}
		return errors.Join(errs...)
	}, nil
}

// attachPoll is how often it is looked whether criu has attached: nobody tells.
const attachPoll = time.Millisecond

// moveAttached moves each process when somebody has attached to it, until ctx
// ends.
func (s *session) moveAttached(ctx context.Context, pids []int) error {
	for left := pids; ; {
		var next []int
		for _, pid := range left {
			if !attachedTo(pid) {
				next = append(next, pid)
				continue
			}
			if err := s.beside.AddToFreezer(pid); err != nil {
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

// attachedTo reports whether somebody traces one of the threads of a process.
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
