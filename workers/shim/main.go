package shim

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/stage"
)

// Main is the program of a shim and of the stages that it starts: a binary that
// uses the criu driver must call it, with the arguments that follow the words
// of Setup.Self, before it starts anything of its own, and exit with its result.
func Main(args []string) int {
	if len(args) == 2 && args[0] == "stage" {
		return stage.Main(args[1])
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err)
		return 1
	}
	return 0
}

func serve() error {
	// The kernel ends a session when the thread ends that started its first process, or the
	// criu that restored it: that is this one, and it lives as long as the shim.
	runtime.LockOSThread()
	// Else it has the number of a descriptor for a name. Names are for those who look.
	_ = os.WriteFile("/proc/self/comm", []byte(ProgramName), 0)
	// Noticed and dropped, not ignored: what is ignored would be inherited.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	worker, err := control.FromFile(os.NewFile(ControlFD, "control"))
	if err != nil {
		return err
	}
	defer worker.Close()
	var setup Setup
	if _, err := worker.Receive(&setup); err != nil {
		return err
	}
	s, err := raise(setup, worker)
	if err != nil {
		// If the worker is gone, the error has no receiver.
		_ = worker.Send(Message{Failure: failure(err)})
		return err
	}
	state := s.state.read()
	if err := worker.Send(Message{Phase: PhaseRunning, State: &state}); err == nil {
		worker.Close()
	}
	<-s.stopped
	return nil
}

// ErrLocked says that a shim of that session lives.
var ErrLocked = errors.New("a shim of this session is still there")

// Lock takes the lock that a shim holds as long as it lives.
func Lock(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the session's lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock the session: %w", err)
	}
	return f, nil
}
