package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/workers/docker"
)

// detachKey leaves an attached terminal: Ctrl-].
const detachKey = 0x1d

const attachHelp = `Use the terminal of a session that was run with --tty, or of a container that was
started with one (docker run -it) and adopted. A suspended session is resumed. Ctrl-]
detaches, and the session runs on; attach again at any time. For a session that waits
for room on a host it waits, and says what its place is. While a client is
attached a session isn't suspended for idleness. What is typed while it is being
suspended all the same arrives: that is undone, or it is resumed.

The end of the input detaches too, when all of it has arrived and nothing was printed
for a second, or after ten: "echo make | diapause attach work" types a line and shows
how it begins. "diapause logs -f" shows what a session prints and keeps nothing awake.

With --shared it watches the terminal of a link that "diapause share" printed, and takes no
name: it asks for the link, or reads it from its standard input. Ctrl-] or Ctrl-C leaves.
What is watched isn't used by it, and nothing is typed.`

func attachCommand(c *client) *cobra.Command {
	var by schemas.MadeBy
	var shared bool
	var authority string
	cmd := &cobra.Command{
		Use: "attach NAME", Short: "Use a session's terminal; Ctrl-] detaches", Args: cobra.MaximumNArgs(1),
		Long: attachHelp, Example: "  diapause attach work\n  diapause attach --shared",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case by != "" && by != schemas.MadeByPerson && by != schemas.MadeByAgent:
				return usagef("--by %q: want person or agent", by)
			case shared && (len(args) > 0 || by != ""):
				return usagef("attach --shared takes no name and no --by")
			case shared:
				return watchShared(cmd.Context(), authority)
			case authority != "":
				return usagef("--cacert is for attach --shared")
			case len(args) == 0:
				return usagef("attach: name a session")
			case by == "":
				by = typist(by)
			}
			return c.attach(cmd.Context(), args[0], by)
		},
	}
	cmd.Flags().StringVar((*string)(&by), "by", "", "who types, for `diapause commands`: person or agent (default person if the input is a terminal, else agent)")
	cmd.Flags().BoolVar(&shared, "shared", false, "watch the terminal of a link that share printed, which is asked for")
	cmd.Flags().StringVar(&authority, "cacert", "", "with --shared: a `FILE` of certificates that the gateway's is trusted by, such as its trust.pem")
	return cmd
}

// typist is who types, for an agent or who isn't one: a person where the input is a terminal.
func typist(by schemas.MadeBy) schemas.MadeBy {
	switch {
	case by == schemas.MadeByAgent:
		return by
	case term.IsTerminal(int(os.Stdin.Fd())):
		return schemas.MadeByPerson
	}
	return schemas.MadeByAgent
}

func (c *client) attach(ctx context.Context, name string, by schemas.MadeBy) error {
	var v schemas.View
	if err := c.call(ctx, "show", schemas.Request{Name: name}, &v); err != nil {
		return err
	}
	if !v.TTY && v.Driver != docker.Name { // a container that was adopted may have one
		if v.Driver == adoptspec.Driver { // what it prints isn't kept, so logs has nothing of it
			return schemas.WithHint(fmt.Errorf("session %s has no terminal: it was adopted", v.Name), "what it prints goes to the files that it has open")
		}
		return schemas.WithHint(fmt.Errorf("session %s has no terminal: it was run without --tty", v.Name), "`diapause logs -f %s` shows what it prints", v.Name)
	}
	if v.Queue != nil && v.Host == "" {
		if err := c.awaitRoom(ctx, name); err != nil {
			return err
		}
	}
	for _, s := range v.Shares {
		fmt.Fprintf(complained, "shared by %s until %s, %d watching; `diapause unshare %s %s` ends that\n", s.By, s.Until.Format(time.RFC3339), s.Watching, v.Name, s.ID)
	}
	r := attach.Request{Op: attach.OpAttach, Stdin: true, Tail: 4096, By: by}
	ctx, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	s := attach.Streams{Stdout: os.Stdout, Stderr: os.Stderr}
	restore, err := rawTerminal(ctx, &r, &s)
	if err != nil {
		return err
	}
	out := &quietly{Writer: os.Stdout, ready: make(chan struct{})}
	s.Stdout = out
	in := &untilDetached{Reader: os.Stdin, detached: make(chan struct{}), ended: make(chan struct{})}
	typing := attach.NewTyping(rand.Text(), in)
	go func() {
		select {
		case <-in.detached:
			letArrive(ctx, typing, arriveLimit)
			detach(errDetached)
		case <-in.ended:
			out.wait(ctx, typing)
			detach(errInputEnded)
		case <-ctx.Done():
		}
	}()
	exit, err := c.converseTyped(ctx, name, typing, r, s, out.attached)
	restore()
	return attachEnded(ctx, name, typing, exit, c.orGone(ctx, name, err))
}

// awaitRoom waits until a session has come to a host, and says so, and what its place is when that changes.
func (c *client) awaitRoom(ctx context.Context, name string) error {
	limit, said := c.timeout, ""
	defer func() { c.timeout = limit }()
	c.timeout = 0
	_, err := c.untilTold(ctx, name, leftQueue(), limit, func(v schemas.View) {
		if v.Queue == nil || v.Host != "" {
			return
		}
		if now := roomLine(*v.Queue); now != said {
			said = now
			fmt.Fprintf(os.Stderr, "session %s waits for room, %s\n", v.Name, now)
		}
	})
	return err
}

// leftQueue are the states of a session that has come to a host.
func leftQueue() []string {
	return slices.DeleteFunc(states(), func(s string) bool { return s == string(schemas.Starting) })
}

// orGone says of a session whose terminal was lost that there is no such session any more.
func (c *client) orGone(ctx context.Context, name string, lost error) error {
	var api *schemas.APIError
	if !errors.Is(lost, attach.ErrLost) || ctx.Err() != nil {
		return lost
	}
	err := c.call(ctx, "show", schemas.Request{Name: name}, &schemas.View{})
	if errors.As(err, &api) && api.Code == schemas.CodeNoSession {
		return err
	}
	return lost
}

// attachEnded says why the terminal is left.
func attachEnded(ctx context.Context, name string, typing *attach.Typing, exit schemas.ExitStatus, err error) error {
	owed := typing.Owed()
	switch {
	case errors.Is(context.Cause(ctx), errDetached):
		fmt.Fprintf(os.Stderr, "detached from session %s, which runs on\n", name)
		return nil
	case errors.Is(context.Cause(ctx), errInputEnded) && owed == 0:
		fmt.Fprintf(os.Stderr, "the input ended: detached from session %s, which runs on\n", name)
		return nil
	case errors.Is(context.Cause(ctx), errInputEnded):
		return schemas.WithHint(fmt.Errorf("the last %d bytes of input haven't reached session %s", owed, name), "`diapause show %s` says whether its host is there", name)
	case errors.Is(err, attach.ErrLost) && owed == 0:
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
func (c *client) converseTyped(ctx context.Context, name string, typing *attach.Typing, r attach.Request, s attach.Streams, connected func()) (schemas.ExitStatus, error) {
	hello := attach.Hello{Name: name, Presence: true, Input: true}
	var since time.Time // when what is owed couldn't be delivered first
	for {
		exit, attached, err := c.typeOnce(ctx, &hello, typing, r, s, connected)
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

// definite reports whether a session can't be attached to again.
func definite(err error) bool {
	var api *schemas.APIError
	return errors.As(err, &api) && slices.Contains([]string{schemas.CodeNoSession, schemas.CodeUsage, schemas.CodeFailed}, api.Code)
}

// typeOnce attaches once. attached says that it came to that.
func (c *client) typeOnce(ctx context.Context, hello *attach.Hello, typing *attach.Typing, r attach.Request, s attach.Streams, connected func()) (exit schemas.ExitStatus, attached bool, err error) {
	api, err := c.connect(ctx)
	if err != nil {
		return exit, false, err
	}
	defer api.Close()
	conn, err := c.dial(ctx, api, hello, true)
	if err != nil {
		return exit, false, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	connected()
	before := typing.Taken()
	exit, err = typing.Attach(conn, r, s)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return exit, typing.Taken() > before, err
}

var (
	errDetached   = errors.New("detached")
	errInputEnded = errors.New("the input ended")
)

// arriveLimit is how long what was typed before the detach key may take to arrive.
const arriveLimit = 2 * time.Second

func letArrive(ctx context.Context, typing *attach.Typing, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	typing.Settle(ctx)
}

// untilDetached is the input of a terminal up to the detach key. One of its channels is
// closed when it is over.
type untilDetached struct {
	io.Reader
	detached, ended chan struct{}
}

func (u *untilDetached) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	for i, b := range p[:n] {
		if b == detachKey {
			close(u.detached)
			return i, io.EOF
		}
	}
	if err != nil {
		close(u.ended)
	}
	return n, err
}

// For how long nothing has to be printed after the end of the input, and how long that is
// waited for.
const (
	quietFor   = time.Second
	quietLimit = 10 * time.Second
)

// quietly is output of which it is known when it pauses.
type quietly struct {
	io.Writer
	once  sync.Once
	ready chan struct{} // closed when a connection is there

	mu   sync.Mutex
	last time.Time
}

// attached says that output can come now.
func (q *quietly) attached() { q.once.Do(func() { close(q.ready) }) }

func (q *quietly) Write(p []byte) (int, error) {
	n, err := q.Writer.Write(p)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = time.Now()
	return n, err
}

// wait returns when all that was typed has arrived, and what came of it was printed, or
// when that takes too long.
func (q *quietly) wait(ctx context.Context, typing *attach.Typing) {
	select {
	case <-q.ready:
	case <-ctx.Done():
		return
	}
	letArrive(ctx, typing, deliverLimit)
	from := time.Now()
	for left := quietFor; left > 0 && time.Since(from) < quietLimit && ctx.Err() == nil; {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
		q.mu.Lock()
		since := q.last
		q.mu.Unlock()
		if since.Before(from) {
			since = from
		}
		left = quietFor - time.Since(since)
	}
}
