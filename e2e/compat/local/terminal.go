package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Terminal is a session's terminal, attached.
type Terminal struct {
	cmd   *exec.Cmd
	keys  io.WriteCloser // of a pipe, or the terminal's master
	sized bool
	shown syncBuffer
	from  int // what Wait has looked at
}

// Attach attaches to the session's terminal.
func (s *Session) Attach(ctx context.Context) (*Terminal, error) {
	t := &Terminal{cmd: s.d.client(ctx, "attach", s.Name)}
	t.cmd.Stdout, t.cmd.Stderr = &t.shown, &t.shown
	var err error
	if t.keys, err = t.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", s.Name, err)
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", s.Name, err)
	}
	return t, nil
}

// AttachSized attaches from a terminal of that size, which the session's terminal
// then has as well.
func (s *Session) AttachSized(ctx context.Context, columns, rows int) (*Terminal, error) {
	master, slave, err := OpenTerminal(columns, rows)
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	t := &Terminal{cmd: s.d.client(ctx, "attach", s.Name), keys: master, sized: true}
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := t.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("attach to %s: %w", s.Name, err), master.Close())
	}
	go func() {
		_, _ = io.Copy(&t.shown, master) // until it is closed
	}()
	return t, nil
}

// Type sends keys.
func (t *Terminal) Type(keys string) error {
	if _, err := io.WriteString(t.keys, keys); err != nil {
		return fmt.Errorf("type %q: %w", keys, err)
	}
	return nil
}

// Wait waits until text is shown, after what an earlier Wait has found, and
// gives what was shown up to it.
func (t *Terminal) Wait(ctx context.Context, text string, wait time.Duration) (string, error) {
	deadline := time.Now().Add(wait)
	for {
		all := t.shown.String()
		if before, _, found := strings.Cut(all[t.from:], text); found {
			t.from += len(before) + len(text)
			return before + text, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return "", fmt.Errorf("%q is not on the terminal after %s, but %q", text, wait, all[t.from:])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Detach leaves the terminal.
func (t *Terminal) Detach() error {
	err := t.Type("\x1d")
	if t.sized {
		return errors.Join(err, t.cmd.Wait(), t.keys.Close())
	}
	return errors.Join(err, t.keys.Close(), t.cmd.Wait())
}
