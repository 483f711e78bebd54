package shim

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// command is a program that the shim started in the session, with its output and how it
// ended. The leader is one, each exec another.
type command struct {
	pid  int // within the session
	exec bool
	name string // that its client gave it, so as to connect again; "" if it can't
	log  *backlog.Log
	outs []*pump

	tty   *terminal // nil if it has pipes
	shown *shown    // what that shows; nil of an exec, too

	mu    sync.Mutex
	stdin *os.File // write end of its standard input's pipe; nil if none or closed

	got    int64       // bytes of input that were taken of the client of a command with a name
	client *connection // the last one

	taken typed  // input taken back while frozen; used with the session's work held
	late  []byte // input that was put back and has no room yet; used inside the gate, or with it closed, with mu held

	done chan struct{} // closed when exit is set
	exit schemas.ExitStatus
}

func newCommand(log *backlog.Log, exec bool) *command {
	return &command{log: log, exec: exec, done: make(chan struct{})}
}

// listen adds a stream that the command writes to.
func (c *command) listen(f *os.File, s backlog.Stream) error {
	p, err := newPump(f, func(b []byte) { c.took(s, b) })
	if err != nil {
		return err
	}
	switch {
	case c.exec:
		p.room = c.log.Room
	case c.tty != nil:
		p.room = func() { c.recorder().roomFor() } // which is made later
	}
	c.outs = append(c.outs, p)
	return nil
}

// useTerminal makes t the command's terminal.
func (c *command) useTerminal(t *terminal) error {
	c.tty = t
	return c.listen(t.master, backlog.Out)
}

// usePipes makes the command's pipes and returns the ends that it gets: input if
// it is to have one, output and error.
func (c *command) usePipes(stdin bool) (theirs []*os.File, err error) {
	defer func() {
		if err != nil {
			closeFiles(theirs)
		}
	}()
	if stdin {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("make a pipe: %w", err)
		}
		theirs, c.stdin = append(theirs, r), w
	}
	for _, s := range []backlog.Stream{backlog.Out, backlog.Err} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("make a pipe: %w", err)
		}
		theirs = append(theirs, w)
		if err := c.listen(r, s); err != nil {
			return theirs, err
		}
	}
	// What the command gets must block, as everywhere.
	for _, f := range theirs {
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
			return theirs, fmt.Errorf("make a pipe: %w", err)
		}
	}
	return theirs, nil
}

// run moves the command's output until all streams have ended.
func (c *command) run(wg *sync.WaitGroup) {
	for _, p := range c.outs {
		wg.Go(p.run)
	}
}

// drain takes in all output that the command has written.
func (c *command) drain() {
	for _, p := range c.outs {
		p.drain()
	}
}

// ended notes how the command ended, after its last output.
func (c *command) ended(e schemas.ExitStatus) {
	c.drain()
	c.exit = e
	close(c.done)
	c.log.End()
}

// write passes on what was typed, waiting while the session is captured or
// doesn't read.
func (c *command) write(ctx context.Context, g *gate, b []byte) error {
	return c.pass(ctx, g, b, c.writeRecorded)
}

// pass writes with put what was typed, piece by piece, when the session isn't being
// captured and has room.
func (c *command) pass(ctx context.Context, g *gate, b []byte, put func(fd int, b []byte) (int, error)) error {
	for len(b) > 0 {
		err := c.enter(ctx, g, func(fd int) error {
			if err := c.putLate(); err != nil {
				return err
			}
			n, err := put(fd, b)
			b = b[max(n, 0):]
			return err
		})
		if err != nil {
			return err
		}
		if c.input() == nil {
			return nil // it has no input, or a closed one
		}
	}
	return nil
}

// enter calls do to write to the command's input, again when there is room, while the
// session isn't being captured.
func (c *command) enter(ctx context.Context, g *gate, do func(fd int) error) error {
	to := c.input()
	if to == nil {
		return nil
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return fmt.Errorf("write to the session: %w", err)
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if failed = g.enter(ctx); failed != nil {
			return true
		}
		defer g.leave()
		failed = do(int(fd))
		return failed != unix.EAGAIN
	})
	if err == nil && failed != unix.EINTR {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("write to the session: %w", err)
	}
	return nil
}

func (c *command) input() *os.File {
	if c.tty != nil {
		return c.tty.master
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdin
}

// closeInput ends the command's standard input; a terminal's can't end.
func (c *command) closeInput(ctx context.Context, g *gate) error {
	if err := g.enter(ctx); err != nil {
		return err
	}
	defer g.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		c.stdin.Close()
		c.stdin = nil
	}
	return nil
}

// close closes all that the shim holds for the command.
func (c *command) close() {
	if c.tty != nil {
		c.tty.close()
	} else {
		for _, p := range c.outs {
			p.file.Close()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		c.stdin.Close()
		c.stdin = nil
	}
}

// closeAtEnd closes the command when it has ended; its client doesn't have to
// wait for that.
func (c *command) closeAtEnd() {
	go func() {
		<-c.done
		c.close()
	}()
}

// ends lists the command's pipes, or its terminal, as /proc/PID/fd has them.
func (c *command) ends() (links []string) {
	if c.tty != nil {
		return []string{c.tty.path()}
	}
	for _, p := range c.outs {
		if key, err := pipeKey(p.file); err == nil {
			links = append(links, key)
		}
	}
	if in := c.input(); in != nil {
		if key, err := pipeKey(in); err == nil {
			links = append(links, key)
		}
	}
	return links
}

// pipeKey is how the kernel, and criu, name a pipe.
func pipeKey(f *os.File) (string, error) {
	var st unix.Stat_t
	raw, err := f.SyscallConn()
	if err == nil {
		ctlErr := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
		if ctlErr != nil {
			err = ctlErr
		}
	}
	if err != nil {
		return "", fmt.Errorf("look at a pipe: %w", err)
	}
	return fmt.Sprintf("pipe:[%d]", st.Ino), nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
