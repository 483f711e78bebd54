package run

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/diapause/diapause/workers/worker"
)

// stuckAfter is how long no session may get further before a shutdown goes on without the rest.
const stuckAfter = 5 * time.Minute

// outlive gives a context that ends after ctx: if the machine shuts down, when the worker that leaving got
// has suspended its sessions. The caller calls end when all has ended.
func (h hostProcess) outlive(ctx context.Context) (longer context.Context, leaving chan<- *worker.Worker, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready := make(chan *worker.Worker, 1)
	unhook := context.AfterFunc(ctx, func() {
		defer cancel()
		select {
		case w := <-ready:
			if h.goesDown(longer) {
				h.leave(longer, w)
			}
		default: // it doesn't know its sessions yet
		}
	})
	return longer, ready, func() { unhook(); cancel() }
}

// leave has a worker suspend its sessions. The service manager gives it time for as long as it gets further.
func (h hostProcess) leave(ctx context.Context, w *worker.Worker) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	extend := func() { tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", stuckAfter.Microseconds())) }
	stuck := time.AfterFunc(stuckAfter, func() { stop(fmt.Errorf("none got further for %s", stuckAfter)) })
	defer stuck.Stop()
	extend()
	fmt.Fprintln(h.Out, "the machine shuts down: its sessions are suspended, and resumed when it is up again")
	left, err := w.Leave(ctx, func() {
		stuck.Reset(stuckAfter)
		extend()
	})
	switch {
	case err != nil:
		h.Log.Error("not all sessions are suspended; those that aren't end with the machine", "err", err)
	case len(left) > 0:
		h.Log.Error("these sessions can't be suspended, and end with the machine", "sessions", strings.Join(left, ", "))
	}
}

// goesDownWait bounds a question to the service manager.
const goesDownWait = 5 * time.Second

// goesDown reports whether systemd shuts this machine down, and sessions are to be suspended for that.
func (h hostProcess) goesDown(ctx context.Context) bool {
	if h.Host.EndWithMachine {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, goesDownWait)
	defer cancel()
	// It fails, with a word on its output, for all states but one.
	out, _ := exec.CommandContext(ctx, "systemctl", "is-system-running").Output()
	return strings.TrimSpace(string(out)) == "stopping"
}
