package shim

import (
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// A command that was started when its session was about to end has ended with it, in
// either order of the two: its client would wait for ever.
func TestCommandEndsWithItsSession(t *testing.T) {
	for _, late := range []bool{false, true} {
		all := newProcesses(schemas.Name{}, nil)
		c := newCommand(backlog.New(attach.OutputKept), true)
		if c.pid = 7; !late {
			all.follow(c)
		}
		all.finish()
		if late {
			all.follow(c)
		}
		select {
		case <-c.done:
		default:
			t.Fatalf("late %v: the session is over, and its command goes on", late)
		}
		if c.exit.Signal != 9 {
			t.Errorf("late %v: it ended with %+v", late, c.exit)
		}
	}
}
