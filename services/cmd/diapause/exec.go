package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

const execHelp = `Run a command inside a session, which is resumed if need be. It is part of the
session: it is suspended and resumed with it, and keeps it awake while it runs. If the
session is suspended all the same, this program waits and goes on when it is resumed, on any
host: with the output, of which the last MiB is kept meanwhile, and the exit status. What is
typed with --tty resumes it. If the session is rolled back, or started again, the command is
gone: that is an error of reason "command_gone".

Its exit status is this program's: 128 + N if signal N ended it, 126 if it can't be
executed, 127 if there is no such command. 125 is for what went wrong before that,
130 if this program was interrupted: the command runs on then.`

// sessionAndCommand gives the words of exec. Flags may stand before the session or after
// it; what comes after the command's first word is the command's.
func sessionAndCommand(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) > 1 && strings.HasPrefix(args[1], "-") {
		if err := cmd.ParseFlags(args[1:]); err != nil {
			return nil, err
		}
		args = append(args[:1:1], cmd.Flags().Args()...)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil, pflag.ErrHelp
	}
	return args, cobra.MinimumNArgs(2)(cmd, args)
}

func execCommand(c *client) *cobra.Command {
	var tty, asJSON bool
	var user, dir string
	var env, words []string
	cmd := &cobra.Command{
		Use: "exec NAME [--] CMD [ARG...]", Short: "Run a command inside a session, as part of it", Long: execHelp,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			words, err = sessionAndCommand(cmd, args)
			return err
		},
		Annotations: map[string]string{ownStatus: "125"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := attach.Request{Op: attach.OpExec, Argv: words[1:], TTY: tty, User: user, Dir: dir, Env: env, Stdin: true}
			s := attach.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			restore := func() {}
			if tty {
				var err error
				if restore, err = rawTerminal(cmd.Context(), &r, &s); err != nil {
					return err
				}
			}
			x := newExecution(c, words[0], r, s)
			x.asJSON = asJSON
			exit, err := x.run(cmd.Context())
			restore()
			if err != nil {
				return err
			}
			if exit.Reason != "" && exit.Signal == 0 { // it isn't the command's own
				fmt.Fprintf(complained, "session %s: %s\n", words[0], exit.Reason)
			}
			if exit.Code != 0 {
				return exitStatus(exit.Code)
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an error as JSON, and to stderr a line of JSON for a suspend and a resume")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give it a terminal")
	cmd.Flags().BoolP("interactive", "i", true, "pass the input on, as is done in any case")
	cmd.Flags().StringVar(&user, "user", "", "USER[:GROUP], each by its number or its name inside the session")
	cmd.Flags().StringVar(&dir, "cwd", "", "working directory inside the session")
	cmd.Flags().StringVarP(&dir, "workdir", "w", "", "the same as --cwd")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "K=V; in place of the session's own environment")
	return cmd
}

// execution is one exec: over one connection after the other if the session is suspended.
type execution struct {
	client  *client
	name    string
	command *attach.Exec
	tty     bool
	asJSON  bool

	was  schemas.View // the session when the command was started
	told string       // the last event that was told
}

func newExecution(c *client, name string, r attach.Request, s attach.Streams) *execution {
	x := &execution{client: c, name: name, tty: r.TTY, command: attach.NewExec(rand.Text(), r, s)}
	x.command.Again = func(lost int64) {
		x.tell("resumed", lost, "the command goes on")
		if lost > 0 {
			x.tell("dropped", lost, fmt.Sprintf("%d bytes of its output were dropped meanwhile", lost))
		}
	}
	return x
}

func (x *execution) run(ctx context.Context) (schemas.ExitStatus, error) {
	exit, err := x.once(ctx, true)
	for ; errors.Is(err, attach.ErrLost) && x.command.Stays() && ctx.Err() == nil; exit, err = x.once(ctx, false) {
		if err := x.wait(ctx); err != nil {
			return exit, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return exit, errInterrupted
	case errors.Is(err, attach.ErrGone):
		return exit, x.gone("it was rolled back or started again")
	}
	return exit, err
}

// once connects, and carries the command until it or the connection ends.
func (x *execution) once(ctx context.Context, ensure bool) (exit schemas.ExitStatus, err error) {
	api, err := x.client.connect(ctx)
	if err == nil {
		defer api.Close()
		if ensure {
			err = x.client.callOn(ctx, api, "ensure", schemas.Request{Name: x.name}, &x.was)
		}
	}
	if err != nil {
		return exit, x.lost(err, ensure)
	}
	conn, err := x.client.dial(ctx, api, &attach.Hello{Name: x.name, UID: x.was.UID, Presence: x.tty, Input: x.tty}, false)
	if err != nil {
		return exit, x.lost(err, ensure)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go x.follow(api.Conn(), conn, ended)
	exit, err = x.command.Run(conn)
	if _, said := errors.AsType[attach.RemoteError](err); said && !ensure {
		err = attach.ErrLost // it was suspended again
	}
	return exit, err
}

// follow ends a connection whose server is away: the tunnel itself would notice later.
func (x *execution) follow(server *nats.Conn, conn io.Closer, ended <-chan struct{}) {
	away := server.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	select {
	case <-away:
		if x.command.Stays() {
			conn.Close()
		}
	case <-ended:
	}
}

// lost is the error of a connection that failed: of a later one it is tried again.
func (x *execution) lost(err error, first bool) error {
	if first || definite(err) {
		return err
	}
	return attach.ErrLost
}

// The pauses between two looks at a session that isn't there, and how long its server may be
// away.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 2 * time.Second
	awayMost  = 2 * time.Minute
)

// wait returns when the session runs, or with the reason why its command won't go on.
func (x *execution) wait(ctx context.Context) error {
	var away time.Time
	for pause := waitFirst; ; pause = min(2*pause, waitMost) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errInterrupted
		}
		verb := "show"
		if x.tty && x.command.Owed() > 0 {
			verb = "ensure" // a key was pressed
		}
		var v schemas.View
		err := x.client.call(ctx, verb, schemas.Request{Name: x.name}, &v)
		switch {
		case err == nil:
		case definite(err):
			return err
		case away.IsZero():
			away = time.Now()
			continue
		case time.Since(away) > awayMost:
			return err
		default:
			continue
		}
		away = time.Time{}
		switch {
		case v.UID != x.was.UID:
			return x.gone("another session has that name by now")
		case v.State == schemas.Exited || v.State == schemas.Failed || v.State == schemas.Deleted:
			return x.gone("it is " + string(v.State))
		case v.State == schemas.Running:
			return nil
		}
		x.tell("suspended", 0, "the command goes on when it is resumed")
	}
}

func (x *execution) gone(why string) error {
	return &schemas.APIError{
		Code: schemas.CodeState, Reason: schemas.ReasonCommandGone, Session: x.name,
		Text: fmt.Sprintf("the command in session %s is gone: %s", x.name, why),
		Hint: fmt.Sprintf("`diapause history %s` says what happened", x.name),
	}
}

// happening is what exec --json says to stderr.
type happening struct {
	Event   string `json:"event"` // suspended, resumed or dropped
	Session string `json:"session"`
	Bytes   int64  `json:"bytes,omitempty"` // dropped of the output
}

// tell says once what became of the session, where there is a person, or a program that asked.
func (x *execution) tell(event string, bytes int64, text string) {
	if x.told == event {
		return
	}
	x.told = event
	if x.asJSON {
		_ = json.NewEncoder(os.Stderr).Encode(happening{event, x.name, bytes}) // stderr is closed, then
		return
	}
	if event == "resumed" || event == "suspended" {
		text = fmt.Sprintf("session %s is %s: %s", x.name, event, text)
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r\ndiapause: %s\r\n", text)
	}
}
