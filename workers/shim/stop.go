package shim

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stop is what has stopped a terminal's output; "" if it isn't stopped.
type stop string

const (
	stoppedByKey     stop = "key"     // Ctrl-S: Ctrl-Q starts it
	stoppedByProgram stop = "program" // tcflow, which alone starts it
)

// start lets output go on that was stopped, and gives what had stopped it. It is called when
// settings without IXON were in force since, which start what a key has stopped.
func (t *terminal) start() stop {
	if t.takesOutput() {
		return stoppedByKey
	}
	for _, action := range []int{unix.TCOOFF, unix.TCOON} { // one that a key has stopped isn't started by TCOON alone
		if err := unix.IoctlSetInt(t.slaveFD, unix.TCXONC, action); err != nil {
			return "" // a terminal that has hung up
		}
	}
	if t.takesOutput() {
		return stoppedByProgram
	}
	return "" // its reader is slow
}

// stop stops output again. With the key disabled since, which would have started it, nothing is left to do.
func (t *terminal) stop(by stop) error {
	switch by {
	case stoppedByKey:
		return t.pressStop()
	case stoppedByProgram:
		if err := unix.IoctlSetInt(t.slaveFD, unix.TCXONC, unix.TCOOFF); err != nil {
			return fmt.Errorf("stop a terminal's output: %w", err)
		}
	}
	return nil
}

// pressStop types what stops output, as its user did. It isn't put behind what is queued where the
// kernel lets it be put in directly: 6.2 to 6.6 may be built without that.
func (t *terminal) pressStop() error {
	settings, err := unix.IoctlGetTermios(t.slaveFD, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read a terminal's settings: %w", err)
	}
	key := settings.Cc[unix.VSTOP]
	if settings.Iflag&unix.IXON == 0 || key == 0 {
		return nil
	}
	_ = unix.IoctlSetPointerInt(t.slaveFD, unix.TIOCSTI, int(key)) // its first byte, as x86 and ARM order them
	if !t.takesOutput() {
		return nil
	}
	if _, err := unix.Write(t.masterFD, []byte{key}); err != nil {
		return fmt.Errorf("stop a terminal's output: %w", err)
	}
	for waited := time.Duration(0); waited < settle && t.takesOutput(); waited += time.Millisecond {
		time.Sleep(time.Millisecond) // there is no signal
	}
	return nil
}
