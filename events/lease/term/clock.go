package term

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is a moment by the clock that starts with the machine and goes on while
// it sleeps; only moments of one machine and boot can be compared.
type Clock time.Duration

// Now reads that clock.
func Now() Clock {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("the boot-time clock can't be read: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return Clock(ts.Nano())
}

// Add gives the moment d later.
func (c Clock) Add(d time.Duration) Clock { return c + Clock(d) }

// Sub gives the time since o.
func (c Clock) Sub(o Clock) time.Duration { return time.Duration(c - o) }

// Renewal is one that is known to be stored.
type Renewal struct {
	Incarnation uint64
	Until       Clock         // sessions of the host may run until then
	Within      time.Duration // that freezing them may take after that
}
