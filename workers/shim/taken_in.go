package shim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal's line discipline processes what is written to the master later, in a thread of
// the kernel, and under the settings of that moment. The kernel has no call that waits for
// it. So put writes a stop character of its own behind the bytes: the terminal takes no output
// from the moment at which that was processed, and all before it was processed, too.

// discipline is how many bytes a line discipline holds.
const discipline = 4096

// piece is how many bytes are put in at once: fewer than there are values of a byte, so
// that one is left for the mark.
const piece = 128

// settle is how long the kernel gets to process bytes where no mark fits behind them. It
// takes microseconds as a rule.
const settle = 20 * time.Millisecond

// put writes b under some settings, and returns when the line discipline has processed it. It
// was in the terminal, so there is room; marks tells whether there is room for one byte more.
func (t *terminal) put(settings *unix.Termios, b []byte, marks bool) error {
	for part := range slices.Chunk(b, piece) {
		if err := t.set(settings); err != nil {
			return err
		}
		n, err := unix.Write(t.masterFD, part)
		if err == nil && n < len(part) {
			err = fmt.Errorf("the terminal took %d bytes of %d", n, len(part))
		}
		if err != nil {
			return fmt.Errorf("put back what was typed: %w", err)
		}
		if !marks || !t.takesOutput() {
			time.Sleep(settle)
			continue
		}
		if err := t.processed(settings, part); err != nil {
			return err
		}
	}
	return nil
}

// processed returns when the line discipline has processed part, which was written last.
func (t *terminal) processed(settings *unix.Termios, part []byte) error {
	mark := markFor(part)
	marked := *settings
	marked.Iflag |= unix.IXON
	marked.Cc[unix.VSTOP] = mark
	if err := t.set(&marked); err != nil {
		return err
	}
	_, err := unix.Write(t.masterFD, []byte{mark})
	if err != nil {
		err = fmt.Errorf("mark the end of what was typed: %w", err)
	}
	const most = time.Minute // a kernel thread's turn, on any machine
	for deadline, wait := time.Now().Add(most), 20*time.Microsecond; err == nil && t.takesOutput(); wait = min(2*wait, settle) {
		if time.Now().After(deadline) {
			err = fmt.Errorf("put back what was typed: %d bytes aren't processed", len(part))
		}
		time.Sleep(wait)
	}
	// Without IXON the terminal takes output again.
	return errors.Join(err, t.set(settings))
}

// markFor is a byte that isn't in part and has no meaning for put.
func markFor(part []byte) byte {
	mark := byte(endMark + 1)
	for mark == '\n' || mark == '\r' || bytes.IndexByte(part, mark) >= 0 {
		mark++
	}
	return mark
}

func (t *terminal) set(settings *unix.Termios) error {
	if err := unix.IoctlSetTermios(t.slaveFD, unix.TCSETS, settings); err != nil {
		return fmt.Errorf("change a terminal's settings: %w", err)
	}
	return nil
}

// takesOutput tells whether programs could write to the terminal: it isn't stopped or full.
func (t *terminal) takesOutput() bool {
	fds := []unix.PollFd{{Fd: int32(t.slaveFD), Events: unix.POLLOUT}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n > 0 && fds[0].Revents&unix.POLLOUT != 0
		}
	}
}
