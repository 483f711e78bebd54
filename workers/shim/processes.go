package shim

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/tiny"
	"github.com/diapause/diapause/workers/tree"
)

// processes are the session's processes: its init, whose end is the end of all, the
// commands that the shim started, and the reports of init on processes that ended.
type processes struct {
	name  schemas.Name
	group *cgroup.Group

	init   int // pid of init, on the host
	leader int // pid of the leader, within the session

	waits waits // as the last freeze found them; of the capture that holds the session's work

	main   *command // the leader, as the shim sees it
	status *pump    // init's reports; nil before the session has a status pipe
	pumps  sync.WaitGroup

	mu        sync.Mutex
	waiting   map[int]*command // commands that run, by their pid within the session
	unclaimed map[int]uint32   // reports on pids that no command has yet
	order     []int            // of unclaimed, oldest first
	leaderHas *uint32          // wait status of the leader, once reported
	over      bool             // nothing of the session runs any more

	done chan struct{} // closed when init has been reaped
	wait unix.WaitStatus
}

func newProcesses(name schemas.Name, group *cgroup.Group) *processes {
	return &processes{
		name: name, group: group, main: newCommand(backlog.New(attach.OutputKept), false),
		waiting: make(map[int]*command), unclaimed: make(map[int]uint32), done: make(chan struct{}),
	}
}

// statusPipe makes the pipe for init's reports and returns the end for init.
func (t *processes) statusPipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the status pipe: %w", err)
	}
	if t.status, err = newPump(r, t.reports); err != nil {
		w.Close()
		return nil, err
	}
	// Init blocks until the pipe is read, rather than lose a report.
	if err := unix.SetNonblock(int(w.Fd()), false); err != nil {
		w.Close()
		return nil, fmt.Errorf("make the status pipe: %w", err)
	}
	return w, nil
}

func (t *processes) reports(b []byte) {
	for ; len(b) >= tiny.StatusSize; b = b[tiny.StatusSize:] {
		t.report(tiny.DecodeStatus(b))
	}
}

// maxUnclaimed bounds the reports on processes that the shim didn't start.
const maxUnclaimed = 1024

func (t *processes) report(s tiny.Status) {
	t.mu.Lock()
	pid := int(s.PID)
	c := t.waiting[pid]
	delete(t.waiting, pid)
	switch {
	case pid == t.leader:
		status := s.Wait
		t.leaderHas = &status
		c = nil // ended when init is
	case c == nil:
		t.unclaimed[pid] = s.Wait
		if t.order = append(t.order, pid); len(t.order) > maxUnclaimed {
			delete(t.unclaimed, t.order[0])
			t.order = t.order[1:]
		}
	}
	t.mu.Unlock()
	if c != nil {
		c.ended(exitOf(unix.WaitStatus(s.Wait)))
	}
}

// follow ends c when its process is reported or the session ends. Either may have
// happened before.
func (t *processes) follow(c *command) {
	t.mu.Lock()
	status, ended := t.unclaimed[c.pid]
	delete(t.unclaimed, c.pid)
	over := t.over
	if !ended && !over {
		t.waiting[c.pid] = c
	}
	t.mu.Unlock()
	switch {
	case ended:
		c.ended(exitOf(unix.WaitStatus(status)))
	case over:
		c.ended(withSession)
	}
}

// withSession is how a command ended that ran until its session was over.
var withSession = schemas.ExitStatus{Code: 137, Signal: 9, Reason: "the session ended"}

// finish ends the commands that are followed, after init has ended.
func (t *processes) finish() {
	t.mu.Lock()
	t.over = true
	left := t.waiting
	t.waiting = map[int]*command{}
	t.mu.Unlock()
	for _, c := range left {
		if c.exec {
			c.ended(withSession)
		}
	}
}

// forget drops the reports on pids that no command has.
func (t *processes) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.unclaimed)
	t.order = nil
}

// execs lists the commands that run beside the leader.
func (t *processes) execs() []*command {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*command
	for _, c := range t.waiting {
		if c.exec {
			all = append(all, c)
		}
	}
	return all
}

// reap waits for init to end. It runs once, in its own goroutine.
func (t *processes) reap() {
	for {
		_, err := unix.Wait4(t.init, &t.wait, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	if t.status != nil {
		t.status.drain()
		t.status.file.Close()
	}
	close(t.done)
}

// exit says how the session ended. It is valid once done is closed.
func (t *processes) exit() schemas.ExitStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaderHas != nil {
		return exitOf(unix.WaitStatus(*t.leaderHas))
	}
	e := exitOf(t.wait)
	e.Reason = "the session's init was killed"
	return e
}

func exitOf(w unix.WaitStatus) schemas.ExitStatus {
	if w.Signaled() {
		return schemas.ExitStatus{Code: 128 + int(w.Signal()), Signal: int(w.Signal())}
	}
	return schemas.ExitStatus{Code: w.ExitStatus()}
}

// pids lists the processes of the session, as the host sees them.
func (t *processes) pids() ([]int, error) {
	pids, err := t.group.Pids()
	if err != nil {
		return nil, fmt.Errorf("list the processes of session %s: %w", t.name, err)
	}
	return pids, nil
}

// kill kills all processes of the session and waits for their end. When ctx ends it
// returns, and they die nevertheless.
func (t *processes) kill(ctx context.Context) error {
	if err := t.group.Kill(ctx); err != nil {
		return fmt.Errorf("kill session %s: %w", t.name, err)
	}
	if t.init == 0 {
		return nil
	}
	select {
	case <-t.main.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch takes in the output of what the shim started, and init's reports, in
// goroutines that end with the session.
func (t *processes) watch() {
	t.pumps.Go(t.status.run)
	t.main.run(&t.pumps)
	for _, c := range t.execs() { // of a session that was restored
		c.run(&t.pumps)
		c.closeAtEnd()
	}
}

// commands lists all that the shim started and that still runs.
func (t *processes) commands() []*command {
	return append([]*command{t.main}, t.execs()...)
}

// holding tells of what a link names whether the shim has the other end, now.
func (t *processes) holding() func(link string) bool {
	held := make(map[string]bool)
	for _, c := range t.commands() {
		for _, link := range c.ends() {
			held[link] = true
		}
	}
	if key, err := pipeKey(t.status.file); err == nil {
		held[key] = true
	}
	return func(link string) bool { return held[link] }
}

func (t *processes) alive() error {
	select {
	case <-t.main.done:
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s has ended by itself", t.name)}
	default:
		return nil
	}
}

// watched lists what programs watch, with paths of what criu can't find by itself, before
// anything is frozen, for the search may take its time.
func (t *processes) watched(ctx context.Context, opened *tree.Opened) ([]tree.Watch, error) {
	pids, err := t.pids()
	if err != nil {
		return nil, err
	}
	watches, err := opened.Watches(ctx, pids)
	if err != nil {
		return nil, fmt.Errorf("find what session %s watches: %w", t.name, err)
	}
	return watches, nil
}

// stillWatched lists paths near what the frozen session watches. before is what it watched
// before the freeze: files may have gone since then, and watches may have come.
func (t *processes) stillWatched(pids []int, opened *tree.Opened, before []tree.Watch) ([]string, error) {
	watches, err := opened.WatchesAgain(context.Background(), pids, before)
	if err != nil {
		return nil, fmt.Errorf("find what session %s watches: %w", t.name, err)
	}
	var paths []string
	for _, w := range watches {
		if w.Lost() {
			return nil, &driver.Error{
				Kind: driver.Transient,
				Text: fmt.Sprintf("session %s watches what has gone: fd %d of %s (pid %d)", t.name, w.Num, comm(w.PID), within(w.PID)),
			}
		}
		if w.Named && w.Path != "" && !slices.Contains(paths, w.Path) {
			paths = append(paths, w.Path)
		}
	}
	return paths, nil
}
