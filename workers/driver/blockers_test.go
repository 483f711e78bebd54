package driver

import (
	"strings"
	"testing"
)

// A refusal says each cause once, and which processes have it.
func TestBlockersByCause(t *testing.T) {
	t.Parallel()
	e := &Error{Text: "session a can't be captured"}
	for pid := range 12 {
		e.Blockers = append(e.Blockers, Blocker{PID: pid + 1, Program: "node", What: "fd 7: io_uring", Why: "it can't be captured", Fix: "switch it off"})
	}
	e.Blockers = append(e.Blockers,
		Blocker{PID: 5, Program: "gdb", What: "traced by 6", Why: "one tracer", Fix: "end it"},
		Blocker{PID: 6, Program: "p", What: "fd 3: device", Why: "why", Fix: "close it"}, Blocker{PID: 6, Program: "p", What: "fd 4: device", Why: "why", Fix: "close it"})
	want := "session a can't be captured: " +
		"12 processes, 1 (node), 2 (node), 3 (node), 4 (node), 5 (node), 6 (node), 7 (node), 8 (node), …, have io_uring: it can't be captured; switch it off; " +
		"gdb (pid 5), traced by 6: one tracer; end it; " +
		"several descriptors of process 6 (p) have device: why; close it"
	if got := e.Error(); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	if n := strings.Count(e.Error(), "io_uring"); n != 1 {
		t.Errorf("the cause is named %d times", n)
	}
}
