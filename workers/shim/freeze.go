package shim

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/workers/driver"
)

const (
	freezeLimit = 20 * time.Second // until every process of the session stands still
	spawnLimit  = 5 * time.Second  // until no process is in the middle of starting another
)

// freeze stops the session's processes, at a moment at which they can be dumped,
// and takes in what is on its way.
func (d *dumper) freeze(ctx context.Context, dump *Dump) error {
	start := time.Now()
	if err := d.freezeBetween(ctx); err != nil {
		return err
	}
	dump.Frozen = time.Now()
	dump.FreezeTook = dump.Frozen.Sub(start)
	// No process writes any more. What is on its way out of the session is taken in,
	// what is on its way into it is taken back.
	d.tree.status.drain()
	for _, c := range d.tree.commands() {
		c.drain()
		if err := c.takeInput(); err != nil {
			return err
		}
	}
	return nil
}

// freezeBetween freezes at a moment when no process waits for a new child to execute
// its program (vfork, posix_spawn): such a process can't be stopped for a dump.
func (d *dumper) freezeBetween(ctx context.Context) error {
	deadline := time.Now().Add(spawnLimit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, freezeLimit)
		err := d.group.Freeze(once)
		cancel()
		if err != nil {
			return fmt.Errorf("freeze session %s: %w", d.name, err)
		}
		busy, err := d.tree.spawning()
		if err != nil || busy == "" {
			return err
		}
		if time.Now().After(deadline) {
			return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("session %s can't be frozen: %s keeps starting programs", d.name, busy)}
		}
		if err := d.guard.release(false); err != nil {
			return fmt.Errorf("thaw session %s: %w", d.name, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// spawning names a process of the frozen session that waits in vfork or the
// like; "" if none does. Then it has noted which calls all threads wait in.
func (t *processes) spawning() (string, error) {
	pids, err := t.pids()
	if err != nil {
		return "", err
	}
	now := make(waits)
	for _, pid := range pids {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue // it ended before it could be frozen
		}
		for _, task := range tasks {
			dir := fmt.Sprintf("/proc/%d/task/%s/", pid, task.Name())
			b, err := os.ReadFile(dir + "syscall")
			if err != nil {
				continue
			}
			now.note(task.Name(), string(b), t.waits)
			if !makesProcess(string(b)) {
				continue
			}
			if where, _ := os.ReadFile(dir + "wchan"); string(where) != stoppedAt {
				return fmt.Sprintf("process %d (%s)", within(pid), comm(pid)), nil
			}
		}
	}
	t.waits = now
	return "", nil
}

// stoppedAt is where a thread waits that a signal has stopped. One that waits for its
// child can't be stopped: it is a child itself, which was stopped before it ever ran, and
// shows the call that made it.
const stoppedAt = "do_signal_stop"

// makesProcess reports whether a thread is within a system call that makes a
// process, by its line of /proc/PID/syscall. A frozen thread is found in one only
// while it waits for the child.
func makesProcess(line string) bool {
	number, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return false // "running", or not there
	}
	return slices.Contains(makers, n)
}

func comm(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "ended"
	}
	return strings.TrimSpace(string(b))
}
