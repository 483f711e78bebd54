package shim

import (
	"runtime"
	"runtime/debug"
	"time"
)

// settleAfter is how long after an operation its memory is given back: soon, and once more when what an
// operation leaves to be done behind it is over, too.
var settleAfter = [2]time.Duration{time.Second, 10 * time.Second}

// The runtime collects garbage when the heap has grown by so many percent, and not below 4 MiB at 100 of them.
const (
	growthAtWork = 100
	growthIdle   = 25 // what comes while nothing is to be done, as a question for the status each half minute
)

// settler gives the memory of operations back to the kernel when the last one is over for
// a while. Its timers run once an operation: a shim does nothing while its session does
// nothing.
type settler struct{ timers [len(settleAfter)]*time.Timer }

func newSettler() (s settler) {
	for i, d := range settleAfter {
		s.timers[i] = time.AfterFunc(d, giveBack)
	}
	return s
}

// later says that an operation has ended.
func (s settler) later() {
	for i, d := range settleAfter {
		s.timers[i].Reset(d)
	}
}

// beginWork is called before an operation that takes memory.
func beginWork() { debug.SetGCPercent(growthAtWork) }

// giveBack collects twice: what pools hold, and the stacks of goroutines that ended, is
// garbage only after the first collection.
func giveBack() {
	debug.SetGCPercent(growthIdle)
	runtime.GC()
	debug.FreeOSMemory()
}
