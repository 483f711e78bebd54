// Command diapause suspends idle sessions to encrypted images and brings them
// back on access, exactly where they were.
//
// It is every part of the system and its own client: `diapause up` runs all of
// it in one process (up.go), the other verbs ask a running one (verbs.go,
// read.go, terminal.go). What runs until it is interrupted is built by package run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/shim"
)

// version of the program; releases set it when they are linked.
var version = "0.1.0-dev"

// The exit codes, which are fixed.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNoSession = 3
	exitState     = 4
	exitTimeout   = 5
	// As for any program that Ctrl-C ends.
	exitInterrupted = 130
)

// errInterrupted is the end of who asked, not of what was asked for.
var errInterrupted = errors.New("interrupted")

// ownStatus annotates a command that exits with the status of another, with what it exits
// with if that was never run.
const ownStatus = "own-status"

func main() {
	if code, ok := hidden(os.Args[1:]); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

// hidden runs the parts of the program that are no command of a person: the
// shim that holds a session.
func hidden(args []string) (code int, ok bool) {
	if len(args) > 0 && args[0] == "shim" {
		return shim.Main(args[1:]), true
	}
	return canaryProgram(args)
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	fmt.Fprintln(os.Stderr, "diapause: "+err.Error())
	if e := (*schemas.APIError)(nil); errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintln(os.Stderr, "hint: "+e.Hint)
	}
	code := exitCode(err)
	if own := cmd.Annotations[ownStatus]; own != "" && code != exitInterrupted {
		code, _ = strconv.Atoi(own) // it is ours
	}
	return code
}

// exitStatus ends the program with the status of a command that ran in a
// session, and nothing printed.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is wrong use of the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	var u usageError
	if errors.As(err, &u) || strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group") { // cobra has no types for these
		return exitUsage
	}
	var e *schemas.APIError
	if errors.As(err, &e) {
		switch e.Code {
		case schemas.CodeUsage:
			return exitUsage
		case schemas.CodeNoSession:
			return exitNoSession
		case schemas.CodeState:
			return exitState
		case schemas.CodeTimeout:
			return exitTimeout
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

const rootHelp = `Diapause suspends idle sessions to encrypted images in an object store, frees
their memory, and brings them back on access, exactly where they were.

  diapause up                          run everything in this process
  diapause run --name work -- bash     start a session
  diapause ls                          see what there is
  diapause suspend work                write its image, free its memory
  diapause ensure work                 have it running, resumed if need be

NAME is [tenant/]id, the tenant "default" if not given. Clients talk to --url
(DIAPAUSE_URL) with --creds (DIAPAUSE_CREDS), or else to the "diapause up" of
--data (DIAPAUSE_DATA, by default /var/lib/diapause).

Exit codes: 0 done, 1 failed, 2 usage, 3 no such session, 4 refused because of
the session's state, 5 timed out, 130 interrupted (what was asked for goes on). exec,
busy and attach exit with the status of their command.`

func newRoot() *cobra.Command {
	c := &client{}
	root := &cobra.Command{
		Use: "diapause", Short: "Suspend idle sessions, resume them on access", Long: rootHelp,
		SilenceUsage: true, SilenceErrors: true, Version: version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if given := cmd.Flag("timeout"); given != nil && given.Changed && c.timeout <= 0 {
				return usagef("--timeout %s: want a time above 0, e.g. 30s", given.Value)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see `%s --help`", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", os.Getenv("DIAPAUSE_URL"), "NATS server to talk to (DIAPAUSE_URL)")
	f.StringVar(&c.creds, "creds", os.Getenv("DIAPAUSE_CREDS"), "file of credentials for it (DIAPAUSE_CREDS)")
	f.StringVar(&c.data, "data", envOr("DIAPAUSE_DATA", "/var/lib/diapause"), "data directory `DIR` of the local diapause up (DIAPAUSE_DATA)")
	durationVar(f, &c.timeout, "timeout", 0, "how long the answer may take (default 2m; with --healthy-within that much more)")
	root.AddCommand(upCommand(c), workerCommand(c), schedulerCommand(c), downCommand(c), doctorCommand(c))
	root.AddCommand(lifecycleCommands(c)...)
	root.AddCommand(readCommands(c)...)
	root.AddCommand(storeCommands(c)...)
	root.AddCommand(activityCommands(c)...)
	root.AddCommand(terminalCommands(c)...)
	root.AddCommand(keyCommand(c), policyCommand(c))
	root.AddCommand(usageCommand(c), triggerCommand(c))
	root.AddCommand(busyCommand(c), statsCommand(c), natsConfigCommand())
	for _, cmd := range root.Commands() {
		checkArgs(cmd)
		strict(cmd)
		completeName(c, cmd)
	}
	group(root)
	return root
}

// checkArgs makes wrong arguments of a command, and of those below it, a usage
// error.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err != nil && !errors.Is(err, pflag.ErrHelp) {
				return usagef("%v; usage: %s", err, cmd.UseLine())
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

func envOr(key, value string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return value
}
