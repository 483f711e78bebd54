package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// typed is input that a terminal holds and no program has read: what its line
// discipline has processed (shown, and acted on), and what waits for room there.
type typed struct {
	seen []byte
	ends []int  // positions in seen at which Ctrl-D, or what has its place, ended a line without a newline
	late []byte // as it was typed

	stopped stop // whether the terminal's output was
}

func (i typed) empty() bool {
	return len(i.seen) == 0 && len(i.ends) == 0 && len(i.late) == 0 && i.stopped == ""
}

// then adds what was typed after it.
func (i typed) then(more typed) typed {
	i.stopped = cmp.Or(more.stopped, i.stopped)
	if len(i.late) > 0 && len(more.seen) > 0 {
		// This doesn't happen: what was late is put in before newer input.
		return typed{seen: i.seen, ends: i.ends, late: append(append(i.late, more.seen...), more.late...), stopped: i.stopped}
	}
	for _, at := range more.ends {
		i.ends = append(i.ends, len(i.seen)+at)
	}
	i.seen = append(i.seen, more.seen...)
	i.late = append(i.late, more.late...)
	return i
}

// takeInput takes out what was typed and not yet read, and starts output that was stopped. The
// programs that could read and write must be frozen. Settings are put back as they were.
func (t *terminal) takeInput() (typed, error) {
	var in typed
	was, err := unix.IoctlGetTermios(t.slaveFD, unix.TCGETS)
	if err != nil {
		return in, fmt.Errorf("read a terminal's settings: %w", err)
	}
	blocked := !t.takesOutput()
	if was.Lflag&unix.ICANON != 0 {
		t.takeLines(&in, was)
	}
	raw := *was
	raw.Iflag = 0
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, 0
	// In canonical mode an unfinished line can't be read.
	if err := unix.IoctlSetTermios(t.slaveFD, unix.TCSETS, &raw); err != nil {
		return in, fmt.Errorf("change a terminal's settings: %w", err)
	}
	waiting, err := unix.IoctlGetInt(t.slaveFD, unix.TIOCINQ)
	if err == nil {
		all := t.readAll()
		waiting = min(waiting, len(all))
		in.seen, in.late = append(in.seen, all[:waiting]...), all[waiting:]
	}
	if back := unix.IoctlSetTermios(t.slaveFD, unix.TCSETS, was); back != nil {
		err = errors.Join(err, back)
	}
	if err != nil {
		return in, fmt.Errorf("take back what was typed: %w", err)
	}
	if blocked {
		in.stopped = t.start()
	}
	return in, nil
}

// takeLines takes the whole lines: each is one read.
func (t *terminal) takeLines(in *typed, settings *unix.Termios) {
	buf := make([]byte, 8192) // longer than any line
	for {
		n, err := unix.Read(t.slaveFD, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		in.seen = append(in.seen, buf[:n]...)
		if n == 0 || !endsLine(buf[n-1], settings) {
			in.ends = append(in.ends, len(in.seen))
		}
	}
}

func endsLine(b byte, settings *unix.Termios) bool {
	return b == '\n' || b != 0 && (b == settings.Cc[unix.VEOL] || b == settings.Cc[unix.VEOL2])
}

func (t *terminal) readAll() (all []byte) {
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(t.slaveFD, buf)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return all
		}
		all = append(all, buf[:max(n, 0)]...)
	}
}

// endMark stands for the end of a line without a newline, while nothing else is written.
const endMark = 4

// putInput puts back what takeInput took. What was processed isn't shown or acted on
// again, and an unfinished line stays unfinished. late is what has no room yet.
func (t *terminal) putInput(in typed) (late []byte, err error) {
	if in.empty() {
		return nil, nil
	}
	was, err := unix.IoctlGetTermios(t.slaveFD, unix.TCGETS)
	if err != nil {
		return in.late, fmt.Errorf("read a terminal's settings: %w", err)
	}
	plain := *was
	plain.Iflag = 0
	plain.Lflag &= unix.ICANON | unix.IEXTEN
	for i := range plain.Cc {
		if i != unix.VEOL && i != unix.VEOL2 {
			plain.Cc[i] = 0 // disabled
		}
	}
	plain.Cc[unix.VMIN] = 1
	marks := len(in.seen)+len(in.ends) < discipline-1 // and the mark itself needs room
	at := 0
	for _, end := range in.ends {
		err = errors.Join(err, t.put(&plain, in.seen[at:end], marks))
		ending := plain
		ending.Cc[unix.VEOF] = endMark
		err = errors.Join(err, t.put(&ending, []byte{endMark}, marks))
		at = end
	}
	err = errors.Join(err, t.put(&plain, in.seen[at:], marks))
	if back := unix.IoctlSetTermios(t.slaveFD, unix.TCSETS, was); back != nil {
		err = errors.Join(err, fmt.Errorf("put a terminal's settings back: %w", back))
	}
	err = errors.Join(err, t.stop(in.stopped))
	return t.putLate(in.late), err
}

// putLate writes what there is room for and gives the rest.
func (t *terminal) putLate(late []byte) []byte {
	for len(late) > 0 {
		n, err := unix.Write(t.masterFD, late)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
		late = late[max(n, 0):]
	}
	return late
}

// takeInput takes back what was typed and not yet read. What an earlier capture
// took and wasn't put back comes first.
func (c *command) takeInput() error {
	var more typed
	var err error
	if c.tty != nil {
		more, err = c.tty.takeInput()
	} else if in := c.input(); in != nil {
		more.seen, err = drainPipe(in)
	}
	c.mu.Lock()
	more.late = append(more.late, c.late...)
	c.late = nil
	c.mu.Unlock()
	c.taken = c.taken.then(more)
	return err
}

// putInput puts the input back. pushLate must follow when the session runs.
func (c *command) putInput() error {
	in := c.taken
	c.taken = typed{}
	if in.empty() {
		return nil
	}
	if c.tty != nil {
		late, err := c.tty.putInput(in)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = late
		return err
	}
	pipe := c.input()
	if pipe == nil {
		return nil
	}
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	// It was in this pipe, so it fits.
	ctlErr := raw.Control(func(fd uintptr) { _, err = unix.Write(int(fd), in.seen) })
	return errors.Join(err, ctlErr)
}

// putLate writes what was late before anything else may be; EAGAIN if there is more.
func (c *command) putLate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.late) == 0 {
		return nil
	}
	if c.late = c.tty.putLate(c.late); len(c.late) > 0 {
		return unix.EAGAIN
	}
	return nil
}

// pushLate puts in what was late when the session reads, in a goroutine that ends when
// all is in, or with the session.
func (c *command) pushLate(g *gate) {
	c.mu.Lock()
	none := len(c.late) == 0
	c.mu.Unlock()
	if none {
		return
	}
	go func() {
		// What isn't put in when it fails went with the session.
		_ = c.enter(context.Background(), g, func(int) error { return c.putLate() })
	}()
}

// drainPipe takes out what is queued in the pipe whose write end f is.
func drainPipe(f *os.File) ([]byte, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var all []byte
	ctlErr := raw.Control(func(fd uintptr) {
		var r int
		r, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(r)
		buf := make([]byte, 64<<10)
		for {
			n, readErr := unix.Read(r, buf)
			if n <= 0 && readErr != unix.EINTR {
				return
			}
			all = append(all, buf[:max(n, 0)]...)
		}
	})
	return all, errors.Join(err, ctlErr)
}
