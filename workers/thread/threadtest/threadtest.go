// Package threadtest starts programs for tests of which some threads end.
//
// The kernel sends a program the signal of PR_SET_PDEATHSIG (SysProcAttr.Pdeathsig) when the thread ends that
// started it, not the process. thread.Discard ends threads, and which ones isn't for callers to
// choose: a daemon that another test started may go with one. It never ends or stops what it started.
package threadtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Start starts a program, as cmd.Start does, on a thread that lives as long as this process, in the network
// namespace of the caller's thread. Another one needs root.
func Start(cmd *exec.Cmd) error {
	space, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("open the network namespace of this thread: %w", err)
	}
	defer space.Close()
	return StartIn(space, cmd)
}

// StartIn starts a program likewise, in a network namespace.
func StartIn(space *os.File, cmd *exec.Cmd) error {
	done := make(chan error)
	requests <- request{space, cmd, done}
	return <-done
}

type request struct {
	space *os.File
	cmd   *exec.Cmd
	done  chan<- error
}

var requests = serve()

func serve() chan<- request {
	all := make(chan request)
	go func() {
		runtime.LockOSThread() // for good, as the goroutine never returns
		own, err := os.Open("/proc/thread-self/ns/net")
		for r := range all {
			if err != nil {
				r.done <- err
				continue
			}
			r.done <- start(own, r)
		}
	}()
	return all
}

func start(own *os.File, r request) error {
	mine, err := own.Stat()
	if err != nil {
		return err
	}
	theirs, err := r.space.Stat()
	if err != nil {
		return err
	}
	if os.SameFile(mine, theirs) {
		return r.cmd.Start()
	}
	if err := unix.Setns(int(r.space.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	err = r.cmd.Start()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("the thread that starts programs of tests can't leave a network namespace: %v", back))
	}
	return err
}
