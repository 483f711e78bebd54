package shim

import (
	"runtime"
	"runtime/debug"
	"time"
)

// settleAfter is how long after an operation its memory is given back.
const settleAfter = time.Second

// settler gives the memory of operations back to the kernel when the last one is over for
// a while. Its timer runs once an operation: a shim does nothing while its session does
// nothing.
type settler struct{ timer *time.Timer }

func newSettler() *settler { return &settler{time.AfterFunc(settleAfter, giveBack)} }

// later says that an operation has ended.
func (s *settler) later() { s.timer.Reset(settleAfter) }

// giveBack collects twice: what pools hold, and the stacks of goroutines that ended, is
// garbage only after the first collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
