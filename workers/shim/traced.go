package shim

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Init reports how commands end. A program of the session that may trace it, since the session has no filter
// of system calls, can keep it from that for ever: then the shim looks by itself.

// tracedEvery is how often it is looked whether init is kept from reporting, tracedWait for how long it has to be.
const (
	tracedEvery = time.Second
	tracedWait  = 10 * time.Second
)

// unreported ends a command whose end init doesn't report, since it is traced. It returns when the command has ended.
func (r *runner) unreported(c *command) {
	tick := time.NewTicker(tracedEvery)
	defer tick.Stop()
	var since time.Time // when init was first found to be held, without a break
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		tracer, held := holder(r.tree.init)
		switch {
		case !held:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= tracedWait:
			r.giveUp(c, tracer)
		}
	}
}

// giveUp ends a command, if it has ended, while no capture has its processes traced.
func (r *runner) giveUp(c *command, tracer int) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if r.gate.enter(now) != nil {
		return
	}
	defer r.gate.leave()
	if is, held := holder(r.tree.init); !held || is != tracer {
		return
	}
	if pid, err := hostPID(r.tree.init, c.pid); err == nil && stateOf(pid) != 'Z' {
		return // it runs
	}
	if r.tree.unfollow(c) {
		c.ended(schemas.ExitStatus{Code: unknownEnd, Reason: fmt.Sprintf(
			"how the command ended isn't known: process %d (%s) of the session traces its init, and so keeps that from reporting; end that process", within(tracer), comm(tracer))})
	}
}

// unknownEnd is the exit status of a command whose own isn't known.
const unknownEnd = 125

// holder gives the process that has another stopped by tracing it.
func holder(pid int) (tracer int, held bool) {
	tracer, err := strconv.Atoi(strings.TrimSpace(statusLine(pid, "TracerPid:")))
	return tracer, err == nil && tracer > 0 && stateOf(pid) == 't'
}

// stateOf gives the state of a process, as /proc/PID/stat has it; 0 if there is none.
func stateOf(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Its name is in parentheses, and may have any characters.
	if at := strings.LastIndexByte(string(text), ')'); at >= 0 && at+2 < len(text) {
		return text[at+2]
	}
	return 0
}

// unfollow has a command's end be reported no more, and reports whether it was still to be.
func (t *processes) unfollow(c *command) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[c.pid] != c {
		return false
	}
	delete(t.waiting, c.pid)
	return true
}
