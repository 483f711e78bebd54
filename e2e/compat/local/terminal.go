package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Terminal is a session's terminal, attached.
type Terminal struct {
	cmd   *exec.Cmd
	keys  io.WriteCloser
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
	return errors.Join(err, t.keys.Close(), t.cmd.Wait())
}
