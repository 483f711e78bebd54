package shim

import (
	"strconv"
	"strings"

	"github.com/diapause/diapause/workers/shim/criu/core"
)

// waits are the calls that the threads of a session waited in when it was frozen last, by the
// host's ids of the threads. A thread whose call was interrupted and continued shows
// restart_syscall from then on, so the first look at it counts.
type waits map[int]wait

type wait struct {
	number int
	where  string // the call's arguments, stack pointer and next instruction, as the kernel prints them
}

// note adds what a thread's line of /proc/PID/task/TID/syscall says. before is what was
// noted at the freeze before.
func (w waits) note(tid string, line string, before waits) {
	id, err := strconv.Atoi(tid)
	if err != nil {
		return
	}
	number, where, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return // it runs
	}
	if old, ok := before[id]; ok && n == core.Syscall && old.where == where {
		n = old.number
	}
	w[id] = wait{n, where}
}
