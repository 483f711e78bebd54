package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/worker"
)

// detachKey leaves an attached terminal: Ctrl-].
const detachKey = 0x1d

func attachCommand(c *client) *cobra.Command {
	return &cobra.Command{
		Use: "attach NAME", Short: "Use a session's terminal; Ctrl-] detaches", Args: cobra.ExactArgs(1),
		Long: "Use the terminal of a session that was run with --tty. A suspended session is\nresumed. Ctrl-] detaches, and the session runs on; attach again at any time.\nWhile somebody is attached a session isn't suspended for idleness. What is typed\nwhile it is being suspended all the same arrives: that is undone, or it is resumed.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.attach(cmd.Context(), args[0]) },
	}
}

func (c *client) attach(ctx context.Context, name string) error {
	var v schemas.View
	if err := c.call(ctx, "show", schemas.Request{Name: name}, &v); err != nil {
		return err
	}
	if !v.TTY {
		return fmt.Errorf("session %s has no terminal, it was run without --tty; `diapause logs -f %s` shows what it prints", v.Name, v.Name)
	}
	r := shim.Request{Op: shim.OpAttach, Stdin: true, Tail: 4096}
	ctx, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	s := shim.Streams{Stdout: os.Stdout, Stderr: os.Stderr}
	restore, err := rawTerminal(ctx, &r, &s)
	if err != nil {
		return err
	}
	detached := make(chan struct{})
	typing := shim.NewTyping(rand.Text(), &untilDetached{Reader: os.Stdin, detach: func() { close(detached) }})
	go func() {
		select {
		case <-detached:
			letArrive(ctx, typing)
			detach(errDetached)
		case <-ctx.Done():
		}
	}()
	exit, err := c.converseTyped(ctx, name, typing, r, s)
	restore()
	return attachEnded(ctx, name, typing, exit, err)
}

// attachEnded says why the terminal is left.
func attachEnded(ctx context.Context, name string, typing *shim.Typing, exit driver.Exit, err error) error {
	owed := typing.Owed()
	switch {
	case errors.Is(context.Cause(ctx), errDetached):
		fmt.Fprintf(os.Stderr, "detached from session %s, which runs on\n", name)
		return nil
	case errors.Is(err, shim.ErrLost) && owed == 0:
		fmt.Fprintf(os.Stderr, "session %s was suspended or stopped; attach again to go on\n", name)
		return nil
	case err != nil && owed > 0:
		return fmt.Errorf("%w (the last %d bytes that were typed have not arrived)", err, owed)
	case err != nil:
		return err
	case exit.Code != 0:
		return exitStatus(exit.Code)
	}
	return nil
}

// How long what was typed is tried to be delivered to a session that was suspended, or
// whose host was away, and the pause between two attempts.
const (
	deliverLimit = time.Minute
	deliverPause = 250 * time.Millisecond
)

// converseTyped attaches, and attaches again as long as there is something typed that
// the session doesn't have: that wakes it.
func (c *client) converseTyped(ctx context.Context, name string, typing *shim.Typing, r shim.Request, s shim.Streams) (driver.Exit, error) {
	var since time.Time // when what is owed couldn't be delivered first
	for {
		exit, attached, err := c.typeOnce(ctx, name, typing, r, s)
		if attached {
			since = time.Time{}
		}
		owed := typing.Owed()
		if err == nil || owed == 0 || ctx.Err() != nil || definite(err) {
			return exit, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > deliverLimit {
			return exit, err
		}
		select {
		case <-time.After(deliverPause):
		case <-ctx.Done():
		}
	}
}

// definite reports whether a session can't be attached to again, whoever waits.
func definite(err error) bool {
	var api *schemas.APIError
	return errors.As(err, &api) && slices.Contains([]string{schemas.CodeNoSession, schemas.CodeUsage, schemas.CodeFailed}, api.Code)
}

// typeOnce attaches once. attached says that it came to that.
func (c *client) typeOnce(ctx context.Context, name string, typing *shim.Typing, r shim.Request, s shim.Streams) (exit driver.Exit, attached bool, err error) {
	nc, err := c.connect(ctx)
	if err != nil {
		return exit, false, err
	}
	defer nc.Close()
	conn, err := c.dial(ctx, nc, worker.Hello{Name: name, Presence: true, Input: true}, true)
	if err != nil {
		return exit, false, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	before := typing.Taken()
	exit, err = typing.Attach(conn, r, s)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return exit, typing.Taken() > before, err
}

var errDetached = errors.New("detached")

// arriveLimit is how long what was typed before the detach key may take to arrive.
const arriveLimit = 2 * time.Second

func letArrive(ctx context.Context, typing *shim.Typing) {
	ctx, cancel := context.WithTimeout(ctx, arriveLimit)
	defer cancel()
	typing.Settle(ctx)
}

// untilDetached is the input of a terminal up to the detach key.
type untilDetached struct {
	io.Reader
	detach func()
}

func (u *untilDetached) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	for i, b := range p[:n] {
		if b == detachKey {
			u.detach()
			return i, io.EOF
		}
	}
	return n, err
}
