// Command diapause suspends idle sessions to encrypted images and brings them
// back on access, exactly where they were.
//
// It is every part of the system and its own client: `diapause up` runs all of
// it in one process (up.go), the other verbs ask a running one (verbs.go,
// read.go, terminal.go). This package alone puts concrete adapters together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
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
)

func main() {
	if code, ok := hidden(os.Args[1:]); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	fmt.Fprintln(os.Stderr, "diapause: "+err.Error())
	return exitCode(err)
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
	if errors.As(err, &u) || strings.HasPrefix(err.Error(), "unknown command") { // cobra has no type for it
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
	if errors.Is(err, context.DeadlineExceeded) {
		return exitTimeout
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
the session's state, 5 timed out.`

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
	f.DurationVar(&c.timeout, "timeout", 0, "how long the answer may take (default 2m; with --healthy-within that much more)")
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
	}
	return root
}

// checkArgs makes wrong arguments of a command, and of those below it, a usage
// error.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usagef("%v; usage: %s", err, cmd.UseLine())
			}
			return nil
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
