package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
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
		// If the worker is gone, there is nobody to tell.
		_ = worker.Send(Message{Failure: failure(err)})
		return err
	}
	state := s.snapshot()
	if err := worker.Send(Message{Phase: PhaseRunning, State: &state}); err == nil {
		worker.Close()
	}
	<-s.stopped
	return nil
}

// raise brings the session up. After an error nothing of it is left but its
// directory and its cgroups, which the worker removes, and the note that it ran, if it did.
func raise(setup Setup, worker *control.Conn) (*session, error) {
	shield()
	lock, err := Lock(setup.Run, LockFile(setup.UID))
	if err != nil {
		return nil, err
	}
	s, err := newSession(setup)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	servers, err := listen(s)
	if err == nil {
		if setup.Boot == schemas.BootClean {
			err = s.start(worker)
		} else {
			err = s.restore(worker)
		}
	}
	if err != nil {
		err = s.ranFirst(err)
		s.undo(err)
		return nil, err
	}
	s.watch()
	servers.serve(s)
	go s.resumed()
	return s, nil
}

// ranFirst has the error of a start or a restore say that the session may have executed
// something before it: it mustn't be begun again from the same image as if it hadn't.
func (s *session) ranFirst(err error) error {
	if !s.ran || driver.KindOf(err) == driver.Broken {
		return err
	}
	return &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s had begun to run, and was ended again", s.setup.Name), Err: err}
}

// resumed runs the hook for how the session came back. What goes wrong with it is
// told where the session's own words are.
func (s *session) resumed() {
	script := ""
	switch s.setup.Boot {
	case schemas.BootResume, schemas.BootRollback, schemas.BootTakeover:
		script = s.setup.Spec.Hooks.OnResume
	case schemas.BootFork:
		script = s.setup.Spec.Hooks.OnFork
	}
	for _, w := range s.hook(context.Background(), script) {
		s.main.log.Append(backlog.Err, []byte("diapause: "+w+"\n"))
	}
}

// undoWait bounds the wait for killed processes to be gone.
const undoWait = 30 * time.Second

// undo removes a tree that has not run, or not in full. That it may have executed
// something stays noted, with its end: the worker may be gone, and the next one must know.
func (s *session) undo(cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), undoWait)
	defer cancel()
	// What is left after this is found by the worker, by its cgroup.
	_ = s.group.Kill(ctx)
	if s.tree.init != 0 {
		_, _ = unix.Wait4(s.tree.init, nil, 0, nil)
	}
	if !s.ran {
		_ = os.Remove(filepath.Join(s.setup.Run, StateFile(s.setup.UID)))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.PID, s.state.Lost = 0, true
	s.state.Exit = &schemas.ExitStatus{Code: 137, Signal: 9, Reason: cause.Error()}
	_ = s.writeState() // what is there says that it ran
}

// shield asks the out-of-memory killer to look elsewhere. It needs a capability
// that not every machine gives.
func shield() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0)
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
